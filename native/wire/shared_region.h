// Memory that a peer on the same host reads without a copy. How it is made, and how its descriptor reaches the peer,
// is the transport's: io/shared_memory.h has Linux's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace headrace {

class SharedRegion {
 public:
  virtual ~SharedRegion() = default;
  virtual std::span<std::byte> bytes() = 0;
  virtual int descriptor() const = 0;
};

// Throws kSystem. Empty where the transport has no such memory: then kShare is answered with kRefused.
using MakeRegion = std::function<std::shared_ptr<SharedRegion>(std::uint64_t bytes)>;

}  // namespace headrace
