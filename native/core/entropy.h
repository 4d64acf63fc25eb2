// Numbers that nobody can guess, for identities; what must be repeatable comes from random.h.
#pragma once

#include <cstdint>
#include <random>

namespace headrace {

inline std::uint64_t draw_entropy() {
  std::random_device device;  // the operating system's
  const std::uint64_t high = device();
  return high << 32 | device();
}

}  // namespace headrace
