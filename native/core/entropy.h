// Unpredictable numbers from the operating system. Repeatable ones come from random.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

void fill_with_entropy(std::span<std::byte> bytes);  // throws kSystem
std::uint64_t draw_entropy();                        // never 0; throws kSystem

}  // namespace headrace
