// A tree of sums over non-negative weights, for sampling in proportion to them.
//
// Wide (16 children, two cache lines of doubles) and flat: level 0 holds the leaves, each level above holds the
// sums of 16 nodes of the one below. A parent is always recomputed from its children, never adjusted by a
// difference, so the sums depend on the weights alone and not on the order of the updates: a tree that is
// rebuilt from a checkpoint samples bit for bit as the one that was saved.
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

class SumTree {
 public:
  static constexpr std::size_t kFanOut = kTreeFanOut;

  explicit SumTree(std::size_t capacity);  // all weights 0
  static std::size_t memory_bytes(std::size_t capacity);

  std::size_t capacity() const { return capacity_; }
  double total() const { return total_; }
  double weight(std::size_t leaf) const { return levels_[0][leaf]; }

  // Sets one weight. O(log16 N).
  void set(std::size_t leaf, double weight);
  // Sets `weights.size()` consecutive leaves from `begin` (no wrap-around) and recomputes each parent once.
  void set_range(std::size_t begin, std::span<const double> weights);
  void clear_range(std::size_t begin, std::size_t count);
  // Sets scattered leaves; where a leaf is named twice the last weight counts. Descents overlap by prefetching.
  void set_many(std::span<const std::uint64_t> leaves, std::span<const double> weights);

  // The leaf under each mass: the smallest i with mass < w_0 + ... + w_i. Masses lie in [0, total()); a mass
  // that rounding carries beyond the end finds the last leaf of positive weight, and a leaf of weight 0 is
  // never found. The queries descend level by level together, so that their cache misses overlap.
  void find(std::span<const double> masses, std::span<std::uint64_t> leaves) const;

 private:
  void mend(std::size_t level, std::size_t node);         // recomputes the sum over one node's children
  void mend_range(std::size_t begin, std::size_t count);  // and over all parents of these leaves, level by level

  std::size_t capacity_;
  std::vector<HugeArray<double>> levels_;  // [0] = leaves; each padded with zeros to whole nodes, the last one node
  double total_ = 0;
};

}  // namespace headrace
