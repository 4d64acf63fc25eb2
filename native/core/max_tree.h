// A tree of maxima over non-negative numbers: the largest priority of what a table holds.
//
// The sibling of SumTree: 16 children, which as floats are one cache line. Level 0 holds the leaves, each level above
// the maxima of 16 nodes of the one below. A change ascends only as far as it changes a maximum.
//
// Threading: not thread-safe. The owner (Table) guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/huge_array.h"
#include "core/tree_levels.h"

namespace headrace {

class MaxTree {
 public:
  static constexpr std::size_t kFanOut = kTreeFanOut;

  explicit MaxTree(std::size_t capacity);  // all values 0
  static std::size_t memory_bytes(std::size_t capacity);

  float max() const { return max_; }  // O(1)
  // Sets `values.size()` consecutive leaves from `begin` (no wrap-around).
  void set_range(std::size_t begin, std::span<const float> values);
  void clear_range(std::size_t begin, std::size_t count);
  // Sets scattered leaves; where a leaf is named twice the last value counts.
  void set_many(std::span<const std::uint64_t> leaves, std::span<const float> values);

 private:
  void mend_range(std::size_t begin, std::size_t count);
  void mend_from(std::size_t node);  // of the leaves

  std::vector<HugeArray<float>> levels_;  // [0] = leaves; each padded with zeros to whole nodes, the last one node
  float max_ = 0;
};

}  // namespace headrace
