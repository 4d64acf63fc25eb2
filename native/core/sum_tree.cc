#include "core/sum_tree.h"

#include <algorithm>
#include <array>

namespace headrace {
namespace {

constexpr std::size_t kGroup = 4;  // a node is scanned as 4 groups of 4: short chains of additions, no branches
static_assert(SumTree::kFanOut == kGroup * kGroup);
constexpr std::size_t kDoublesPerLine = 8;
constexpr std::size_t kBlock = 64;  // queries that descend together: enough to overlap misses, few enough for L1

double group_sum(const double* w) { return (w[0] + w[1]) + (w[2] + w[3]); }

double node_sum(const double* w) { return (group_sum(w) + group_sum(w + 4)) + (group_sum(w + 8) + group_sum(w + 12)); }

void prefetch_node(const double* node) {
  __builtin_prefetch(node);
  __builtin_prefetch(node + kDoublesPerLine);
}

// Index of the one of four weights under `mass`, which becomes the mass within it. The last takes what is beyond.
std::size_t step(double w0, double w1, double w2, double& mass) {
  const std::array<double, kGroup> before = {0.0, w0, w0 + w1, (w0 + w1) + w2};
  const std::size_t index = static_cast<std::size_t>(mass >= before[1]) + static_cast<std::size_t>(mass >= before[2]) +
                            static_cast<std::size_t>(mass >= before[3]);
  mass -= before[index];
  return index;
}

// Child of `node` under `mass`, which becomes the mass within that child.
std::size_t descend(const double* node, double& mass) {
  const std::size_t group = step(group_sum(node), group_sum(node + 4), group_sum(node + 8), mass);
  const double* w = node + group * kGroup;
  std::size_t child = group * kGroup + step(w[0], w[1], w[2], mass);
  if (node[child] > 0) [[likely]]
    return child;
  // Rounding carried the mass beyond the last weight above zero: that one takes it, at its very end.
  child = SumTree::kFanOut - 1;
  while (child > 0 && !(node[child] > 0)) --child;
  mass = node[child];
  return child;
}

}  // namespace

SumTree::SumTree(std::size_t capacity) : capacity_(capacity) {
  for_each_tree_level(capacity, [&](std::size_t entries) { levels_.emplace_back(entries); });
}

std::size_t SumTree::memory_bytes(std::size_t capacity) { return tree_memory_bytes<double>(capacity); }

void SumTree::mend(std::size_t level, std::size_t node) {
  const double sum = node_sum(levels_[level].data() + node * kFanOut);
  (level + 1 < levels_.size() ? levels_[level + 1][node] : total_) = sum;
}

void SumTree::set(std::size_t leaf, double weight) {
  levels_[0][leaf] = weight;
  mend_range(leaf, 1);
}

void SumTree::set_range(std::size_t begin, std::span<const double> weights) {
  std::copy(weights.begin(), weights.end(), levels_[0].data() + begin);
  mend_range(begin, weights.size());
}

void SumTree::clear_range(std::size_t begin, std::size_t count) {
  std::fill_n(levels_[0].data() + begin, count, 0.0);
  mend_range(begin, count);
}

void SumTree::mend_range(std::size_t begin, std::size_t count) {
  if (count == 0) return;
  std::size_t first = begin;
  std::size_t last = begin + count - 1;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    first /= kFanOut;
    last /= kFanOut;
    for (std::size_t node = first; node <= last; ++node) mend(level, node);
  }
}

void SumTree::set_many(std::span<const std::uint64_t> leaves, std::span<const double> weights) {
  for (const std::uint64_t leaf : leaves) prefetch_node(levels_[0].data() + leaf / kFanOut * kFanOut);
  for (std::size_t i = 0; i < leaves.size(); ++i) levels_[0][leaves[i]] = weights[i];
  std::size_t width = 1;
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    width *= kFanOut;
    const std::size_t nodes = levels_[level].size() / kFanOut;
    if (nodes <= leaves.size()) {  // from here up there are fewer nodes than leaves named: mend each once
      for (std::size_t node = 0; node < nodes; ++node) mend(level, node);
      continue;
    }
    std::size_t mended = nodes;  // a batch's keys mostly rise, so equal parents are neighbors
    for (const std::uint64_t leaf : leaves) {
      const std::size_t node = leaf / width;
      if (node != mended) mend(level, node);
      mended = node;
    }
  }
}

void SumTree::find(std::span<const double> masses, std::span<std::uint64_t> leaves) const {
  std::array<double, kBlock> mass;
  for (std::size_t begin = 0; begin < masses.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, masses.size() - begin);
    std::uint64_t* at = leaves.data() + begin;
    std::copy_n(masses.data() + begin, count, mass.data());
    std::fill_n(at, count, 0);
    for (std::size_t level = levels_.size(); level-- > 0;) {
      const double* nodes = levels_[level].data();
      const double* below = level > 0 ? levels_[level - 1].data() : nullptr;
      for (std::size_t i = 0; i < count; ++i) {
        at[i] = at[i] * kFanOut + descend(nodes + at[i] * kFanOut, mass[i]);
        if (below != nullptr) prefetch_node(below + at[i] * kFanOut);
      }
    }
  }
}

}  // namespace headrace
