#include "core/max_tree.h"

#include <algorithm>

namespace headrace {
namespace {

float node_max(const float* values) {
  float largest = values[0];
  for (std::size_t i = 1; i < MaxTree::kFanOut; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

}  // namespace

MaxTree::MaxTree(std::size_t capacity) {
  for_each_tree_level(capacity, [&](std::size_t entries) { levels_.emplace_back(entries); });
}

std::size_t MaxTree::memory_bytes(std::size_t capacity) { return tree_memory_bytes<float>(capacity); }

void MaxTree::set_range(std::size_t begin, std::span<const float> values) {
  std::copy(values.begin(), values.end(), levels_[0].data() + begin);
  mend_range(begin, values.size());
}

void MaxTree::clear_range(std::size_t begin, std::size_t count) {
  std::fill_n(levels_[0].data() + begin, count, 0.0f);
  mend_range(begin, count);
}

void MaxTree::set_many(std::span<const std::uint64_t> leaves, std::span<const float> values) {
  for (const std::uint64_t leaf : leaves) __builtin_prefetch(levels_[0].data() + leaf, 1);
  for (std::size_t i = 0; i < leaves.size(); ++i) levels_[0][leaves[i]] = values[i];
  std::size_t mended = levels_[0].size();  // a batch's keys mostly rise, so equal nodes are neighbors
  for (const std::uint64_t leaf : leaves) {
    const std::size_t node = leaf / kFanOut;
    if (node != mended) mend_from(node);
    mended = node;
  }
}

void MaxTree::mend_range(std::size_t begin, std::size_t count) {
  if (count == 0) return;
  for (std::size_t node = begin / kFanOut; node <= (begin + count - 1) / kFanOut; ++node) mend_from(node);
}

// All leaves are written before the first call, so a maximum that stays the same stays right above it too.
void MaxTree::mend_from(std::size_t node) {
  for (std::size_t level = 0; level < levels_.size(); ++level, node /= kFanOut) {
    const float largest = node_max(levels_[level].data() + node * kFanOut);
    float& above = level + 1 < levels_.size() ? levels_[level + 1][node] : max_;
    if (above == largest) return;
    above = largest;
  }
}

}  // namespace headrace
