// Numbers that nobody can foresee, from the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

void fill_at_random(std::span<std::byte> bytes);  // throws kSystem
std::uint64_t random_number();                    // never 0; throws kSystem

}  // namespace headrace
