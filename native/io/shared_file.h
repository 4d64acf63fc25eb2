// Memory that processes of one user on one machine share under a path: a memfd, seen through its maker's /proc/PID/fd.
//
// Threading: not thread-safe. The path works while its maker keeps it; the memory exists until its last user closes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/shared_memory.h"

namespace headrace {

class SharedFile {
 public:
  explicit SharedFile(std::uint64_t bytes);  // makes it, zeroed; throws kSystem
  // Opens what another process (or this one) made. Throws kClosed if its maker has ended, kInvalid if the path is
  // something else, kSystem.
  explicit SharedFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::span<std::byte> memory() const { return memory_; }

 private:
  std::shared_ptr<SharedRegion> made_;  // one of these two
  std::unique_ptr<MappedRegion> opened_;
  std::string path_;
  std::span<std::byte> memory_;
};

}  // namespace headrace
