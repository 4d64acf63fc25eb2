// Table: taking new priorities.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/table_impl.h"

namespace headrace {
namespace {

constexpr std::size_t kUpdatesAtATime = 2048;  // under one lock, which takes less than a millisecond
constexpr std::size_t kBlock = 64;             // keys whose cache misses overlap

}  // namespace

void Table::check_priorities(std::span<const float> priorities) {
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (std::isfinite(priorities[i]) && priorities[i] >= 0) continue;
    throw Error(ErrorKind::kInvalid, "priorities[" + std::to_string(i) + "] is " + std::to_string(priorities[i]) +
                                         ", but it must be finite and >= 0; none is applied");
  }
}

std::uint64_t Table::Impl::update(std::span<const std::uint64_t> keys, std::span<const float> new_priorities) {
  if (keys.size() != new_priorities.size()) {
    throw Error(ErrorKind::kInvalid, "priorities: " + std::to_string(new_priorities.size()) + " values for " +
                                         std::to_string(keys.size()) +
                                         " keys, but the numbers must be equal; none is applied");
  }
  check_priorities(new_priorities);
  std::uint64_t applied = 0;
  std::size_t begin = 0;
  do {
    const std::size_t count = std::min(kUpdatesAtATime, keys.size() - begin);
    applied += update_some(keys.subspan(begin, count), new_priorities.subspan(begin, count));
    begin += count;
  } while (begin < keys.size());
  return applied;
}

std::uint64_t Table::Impl::update_some(std::span<const std::uint64_t> keys, std::span<const float> new_priorities) {
  thread_local std::vector<double> all_weights;  // of all keys; what follows: of those that are stored
  thread_local std::vector<std::uint64_t> slots;
  thread_local std::vector<double> leaf_weights;
  thread_local std::vector<float> values;
  all_weights.clear();
  slots.clear();
  leaf_weights.clear();
  values.clear();
  if (prioritized()) {  // before the lock: powers take longer than the rest
    std::ranges::transform(new_priorities, std::back_inserter(all_weights),
                           [this](float priority) { return leaf_weight(priority); });
  }
  std::array<float*, kBlock> targets;
  std::array<std::size_t, kBlock> kept;
  const LockGuard lock(mutex);
  if (closed) throw Error(ErrorKind::kClosed, "the table is closed");
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, keys.size());
    const std::size_t first = slots.size();
    for (std::size_t i = begin; i < end; ++i) {
      if (!transitions.holds(keys[i])) continue;
      kept[slots.size() - first] = i;
      slots.push_back(transitions.slot_of(keys[i]));
      transitions.prefetch(slots.back());
    }
    const std::size_t count = slots.size() - first;
    for (std::size_t i = 0; i < count; ++i) __builtin_prefetch(&transitions.chunk_at(slots[first + i]));
    for (std::size_t i = 0; i < count; ++i) {
      ChunkHeader& chunk = transitions.chunk_at(slots[first + i]);
      targets[i] = transitions.priorities_of(chunk) + (keys[kept[i]] - chunk.first_key);
      __builtin_prefetch(targets[i], 1);
    }
    for (std::size_t i = 0; i < count; ++i) {
      *targets[i] = new_priorities[kept[i]];
      values.push_back(new_priorities[kept[i]]);
      if (tree) leaf_weights.push_back(all_weights[kept[i]]);
    }
  }
  priorities.set_many(slots, values);
  if (tree) tree->set_many(slots, leaf_weights);
  counters.updates += slots.size();
  counters.dropped_updates += keys.size() - slots.size();
  return slots.size();
}

}  // namespace headrace
