// The payload of a request that updates priorities.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/error.h"

namespace headrace {

// Keys and priorities, from where they lie. Throws kInvalid where their numbers differ.
inline std::array<std::span<const std::byte>, 2> parts_of_update(std::span<const std::uint64_t> keys,
                                                                 std::span<const float> priorities) {
  if (keys.size() != priorities.size()) {
    throw Error(ErrorKind::kInvalid, "priority: " + std::to_string(priorities.size()) + " values for " +
                                         std::to_string(keys.size()) + " keys; equal numbers required");
  }
  return {std::as_bytes(keys), std::as_bytes(priorities)};
}

}  // namespace headrace
