// Table: drawing batches and taking new priorities.
#include <array>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/gather.h"
#include "core/table_impl.h"

namespace headrace {
namespace {

// What was drawn for one batch; kept by each thread, so that sampling allocates nothing once warm.
struct Drawn {
  std::vector<double> masses;
  std::vector<std::uint64_t> slots, keys;
  std::vector<double> weights;  // of the leaves; empty where sampling is uniform
  double total = 0;             // weight, or transitions

  void resize(std::size_t batch, bool weighted) {
    masses.resize(weighted ? batch : 0);
    weights.resize(weighted ? batch : 0);
    slots.resize(batch);
    keys.resize(batch);
  }
};

// One from each B-th of the total weight.
void draw_prioritized(const SumTree& tree, const Transitions& transitions, Random& random, Drawn& drawn) {
  const std::size_t batch = drawn.keys.size();
  drawn.total = tree.total();
  const double stratum = drawn.total / static_cast<double>(batch);
  for (std::size_t i = 0; i < batch; ++i) drawn.masses[i] = (static_cast<double>(i) + random.uniform()) * stratum;
  tree.find(drawn.masses, drawn.slots);
  const std::uint64_t oldest_slot = transitions.slot_of(transitions.oldest_key());
  for (std::size_t i = 0; i < batch; ++i) {
    const std::uint64_t slot = drawn.slots[i];
    const std::uint64_t lap = slot < oldest_slot ? transitions.capacity() : 0;
    drawn.keys[i] = transitions.oldest_key() + slot + lap - oldest_slot;
    drawn.weights[i] = tree.weight(slot);
  }
}

// One from each B-th of the stored transitions.
void draw_uniform(const Transitions& transitions, Random& random, Drawn& drawn) {
  const std::size_t batch = drawn.keys.size();
  drawn.total = static_cast<double>(transitions.size());
  const double stratum = drawn.total / static_cast<double>(batch);
  const std::uint64_t oldest_slot = transitions.slot_of(transitions.oldest_key());
  for (std::size_t i = 0; i < batch; ++i) {
    const auto drawn_offset = static_cast<std::uint64_t>((static_cast<double>(i) + random.uniform()) * stratum);
    const std::uint64_t offset = std::min(drawn_offset, transitions.size() - 1);
    const std::uint64_t slot = oldest_slot + offset;
    drawn.keys[i] = transitions.oldest_key() + offset;
    drawn.slots[i] = slot < transitions.capacity() ? slot : slot - transitions.capacity();
  }
}

// probability, weight and key of a batch. (N P)^-beta over its largest is (P / P_min)^-beta.
void describe(const Drawn& drawn, double importance_exponent, const BatchView& batch) {
  if (batch.key) std::copy(drawn.keys.begin(), drawn.keys.end(), batch.key);
  if (drawn.weights.empty()) {
    if (batch.probability) std::fill_n(batch.probability, batch.size, static_cast<float>(1.0 / drawn.total));
    if (batch.weight) std::fill_n(batch.weight, batch.size, 1.0f);
    return;
  }
  const double smallest = *std::min_element(drawn.weights.begin(), drawn.weights.end());
  const auto beta = static_cast<float>(importance_exponent);
  for (std::uint32_t i = 0; i < batch.size; ++i) {
    if (batch.probability) batch.probability[i] = static_cast<float>(drawn.weights[i] / drawn.total);
    if (batch.weight) batch.weight[i] = std::pow(static_cast<float>(smallest / drawn.weights[i]), beta);
  }
}

void check_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities) {
  if (keys.size() != priorities.size()) {
    throw Error(ErrorKind::kInvalid, "priorities: " + std::to_string(priorities.size()) + " values for " +
                                         std::to_string(keys.size()) +
                                         " keys, but the numbers must be equal; none is applied");
  }
  for (std::size_t i = 0; i < priorities.size(); ++i) {
    if (std::isfinite(priorities[i]) && priorities[i] >= 0) continue;
    throw Error(ErrorKind::kInvalid, "priorities[" + std::to_string(i) + "] is " + std::to_string(priorities[i]) +
                                         ", but it must be finite and >= 0; none is applied");
  }
}

}  // namespace

bool Table::Impl::sample(const BatchView& batch, double importance_exponent, std::optional<Deadline> deadline) {
  if (batch.size == 0) throw Error(ErrorKind::kInvalid, "batch size is 0, but it must be at least 1");
  if (!std::isfinite(importance_exponent) || importance_exponent < 0) {
    throw Error(ErrorKind::kInvalid, "importance_exponent is " + std::to_string(importance_exponent) +
                                         ", but it must be finite and >= 0; nothing is drawn");
  }
  thread_local Drawn drawn;
  drawn.resize(batch.size, prioritized());
  std::size_t pin = 0;
  bool wake = false;
  {
    const LockGuard lock(mutex);
    while (!may_sample(batch.size)) {
      held_batch = sample_held.holding() ? std::min<std::uint64_t>(held_batch, batch.size) : batch.size;
      sample_held.hold();
      if (!deadline) return false;
      if (!sample_allowed.wait_until(mutex, *deadline) && !may_sample(batch.size)) return false;
    }
    if (tree) {
      draw_prioritized(*tree, transitions, random, drawn);
    } else {
      draw_uniform(transitions, random, drawn);
    }
    pin = pins.add(*std::min_element(drawn.keys.begin(), drawn.keys.end()));
    limiter.sampled(batch.size);
    counters.samples += batch.size;
    wake = end_holds();
  }

  if (wake) wakers.wake_all();
  for (const std::uint64_t slot : drawn.slots) stored().prefetch(slot);
  describe(drawn, importance_exponent, batch);
  gather(stored(), options.signature.stack, drawn.keys, drawn.slots, batch);

  {
    const LockGuard lock(mutex);
    pins.remove(pin);
    wake = unpinned_one();
  }
  if (wake) wakers.wake_all();
  return true;
}

std::uint64_t Table::Impl::update(std::span<const std::uint64_t> keys, std::span<const float> priorities) {
  check_priorities(keys, priorities);
  constexpr std::size_t kBlock = 64;  // keys whose cache misses overlap
  thread_local std::vector<std::uint64_t> slots;
  thread_local std::vector<double> leaf_weights;
  thread_local std::vector<float> applied;
  slots.clear();
  applied.clear();
  leaf_weights.clear();
  std::array<float*, kBlock> targets;
  std::array<std::uint32_t, kBlock> kept;
  const LockGuard lock(mutex);
  if (closed) throw Error(ErrorKind::kClosed, "the table is closed");
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, keys.size());
    const std::size_t first = slots.size();
    for (std::size_t i = begin; i < end; ++i) {
      if (!transitions.holds(keys[i])) continue;
      kept[slots.size() - first] = static_cast<std::uint32_t>(i);
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
      const float priority = priorities[kept[i]];
      *targets[i] = priority;
      applied.push_back(priority);
      if (tree) leaf_weights.push_back(leaf_weight(priority));
    }
  }
  this->priorities.set_many(slots, applied);
  if (tree) tree->set_many(slots, leaf_weights);
  counters.updates += slots.size();
  counters.dropped_updates += keys.size() - slots.size();
  return slots.size();
}

}  // namespace headrace
