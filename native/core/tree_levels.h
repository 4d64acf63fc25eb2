// The layout that the trees over a table's slots share: level 0 holds the leaves, each level above one entry for every
// node of 16 entries below, and the last level is one node.
#pragma once

#include <algorithm>
#include <cstddef>

namespace headrace {

inline constexpr std::size_t kTreeFanOut = 16;

// Calls `take` with the number of entries of each level, padded to whole nodes, the leaves first.
template <class Take>
void for_each_tree_level(std::size_t capacity, Take take) {
  std::size_t entries = capacity;
  do {
    const std::size_t nodes = std::max<std::size_t>(1, (entries + kTreeFanOut - 1) / kTreeFanOut);
    take(nodes * kTreeFanOut);
    entries = nodes;
  } while (entries > 1);
}

// Bytes of a tree whose entries are of this type.
template <class Entry>
std::size_t tree_memory_bytes(std::size_t capacity) {
  std::size_t sum = 0;
  for_each_tree_level(capacity, [&](std::size_t entries) { sum += entries * sizeof(Entry); });
  return sum;
}

}  // namespace headrace
