// Table: drawing batches and gathering them.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/gather.h"
#include "core/table_impl.h"

namespace headrace {

struct DrawnKeys {
  std::size_t count = 0;  // drawn so far
  std::vector<double> masses;
  std::vector<std::uint64_t> slots, keys;
  std::vector<double> weights;  // of the leaves, for the same total; empty where sampling is uniform
  double total = 0;             // weight, or transitions, when the first was drawn

  void reset(std::size_t batch, bool weighted) {
    count = 0;
    masses.resize(weighted ? batch : 0);
    weights.resize(weighted ? batch : 0);
    slots.resize(batch);
    keys.resize(batch);
  }
};

namespace {

constexpr std::size_t kKeysAtATime = 4096;  // under one lock, which takes less than a millisecond

// One from each B-th of the total weight, up to the `end`-th.
void draw_prioritized(const SumTree& tree, const Transitions& transitions, Random& random, std::size_t end,
                      DrawnKeys& drawn) {
  const std::size_t begin = drawn.count;
  const double total = tree.total();
  if (begin == 0) drawn.total = total;
  const double stratum = total / static_cast<double>(drawn.keys.size());
  const double scale = drawn.total / total;  // 1 where no other call came between
  for (std::size_t i = begin; i < end; ++i) drawn.masses[i] = (static_cast<double>(i) + random.uniform()) * stratum;
  tree.find(std::span(drawn.masses).subspan(begin, end - begin), std::span(drawn.slots).subspan(begin, end - begin));
  const std::uint64_t oldest_slot = transitions.slot_of(transitions.oldest_key());
  for (std::size_t i = begin; i < end; ++i) {
    const std::uint64_t slot = drawn.slots[i];
    const std::uint64_t lap = slot < oldest_slot ? transitions.capacity() : 0;
    drawn.keys[i] = transitions.oldest_key() + slot + lap - oldest_slot;
    drawn.weights[i] = tree.weight(slot) * scale;
  }
}

// One from each B-th of the stored transitions: all at once, since it takes 5 ns for each.
void draw_uniform(const Transitions& transitions, Random& random, DrawnKeys& drawn) {
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

// Where one insert has taken the place of everything stored: those drawn last, which are still pinned, again.
void draw_again(std::size_t end, DrawnKeys& drawn) {
  for (std::size_t i = drawn.count; i < end; ++i) {
    drawn.keys[i] = drawn.keys[i - kKeysAtATime];
    drawn.slots[i] = drawn.slots[i - kKeysAtATime];
    drawn.weights[i] = drawn.weights[i - kKeysAtATime];
  }
}

// probability, weight and key of a batch. (N P)^-beta over its largest is (P / P_min)^-beta.
void describe(const DrawnKeys& drawn, double importance_exponent, const BatchView& batch) {
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

// The fields that gather() fills, from the `begin`-th transition on.
BatchView part_of(const BatchView& batch, std::size_t begin, std::size_t count, std::size_t stack_bytes,
                  std::size_t action_bytes) {
  const auto from = [begin](auto* field, std::size_t width) { return field ? field + begin * width : nullptr; };
  BatchView part;
  part.size = static_cast<std::uint32_t>(count);
  part.observation = from(batch.observation, stack_bytes);
  part.next_observation = from(batch.next_observation, stack_bytes);
  part.action = from(batch.action, action_bytes);
  part.reward = from(batch.reward, 1);
  part.discount = from(batch.discount, 1);
  part.policy_version = from(batch.policy_version, 1);
  return part;
}

// Kept by each thread from batch to batch, because their arrays are large.
std::unique_ptr<DrawnKeys>& spare_keys() {
  thread_local std::unique_ptr<DrawnKeys> spare;
  return spare;
}

}  // namespace

Table::Draw::Draw(Impl& table, const BatchView& batch, double importance_exponent)
    : table_(table), batch_(batch), importance_exponent_(importance_exponent), drawn_(std::move(spare_keys())) {
  if (!drawn_) drawn_ = std::make_unique<DrawnKeys>();
  drawn_->reset(batch.size, table.prioritized());
}

Table::Draw::~Draw() {
  if (pin_) table_.unpin(*pin_);
  spare_keys() = std::move(drawn_);
}

std::uint64_t Table::Draw::transition_bytes() const {
  const Transitions& stored = table_.stored();
  return 2 * table_.options.signature.stack * stored.row_bytes() + stored.action_bytes();
}

bool Table::Draw::gather(std::size_t most) {
  if (gathered_ == drawn_->count) {
    table_.draw_on(*this);
    return false;
  }
  const std::size_t count = std::min(most, drawn_->count - gathered_);
  const Transitions& stored = table_.stored();
  const std::uint32_t stack = table_.options.signature.stack;
  const auto part = part_of(batch_, gathered_, count, stack * stored.row_bytes(), stored.action_bytes());
  headrace::gather(stored, stack, std::span(drawn_->keys).subspan(gathered_, count),
                   std::span(drawn_->slots).subspan(gathered_, count), part);
  gathered_ += count;
  return gathered_ == batch_.size;
}

void Table::Draw::gather_all() {
  while (!gather(batch_.size)) {
  }
}

void Table::Draw::prepare(std::size_t begin) {
  for (std::size_t i = begin; i < drawn_->count; ++i) table_.stored().prefetch(drawn_->slots[i]);
  if (drawn_->count == batch_.size) describe(*drawn_, importance_exponent_, batch_);
}

void Table::Impl::unpin(std::size_t pin) {
  bool wake = false;
  {
    const LockGuard lock(mutex);
    pins.remove(pin);
    wake = unpinned_one();
  }
  if (wake) wakers.wake_all();
}

std::unique_ptr<Table::Draw> Table::Impl::draw(const BatchView& batch, double importance_exponent,
                                               std::optional<Deadline> deadline) {
  if (batch.size == 0) throw Error(ErrorKind::kInvalid, "batch size is 0, but it must be at least 1");
  if (!std::isfinite(importance_exponent) || importance_exponent < 0) {
    throw Error(ErrorKind::kInvalid, "importance_exponent is " + std::to_string(importance_exponent) +
                                         ", but it must be finite and >= 0; nothing is drawn");
  }
  std::unique_ptr<Draw> made(new Draw(*this, batch, importance_exponent));
  bool wake = false;
  {
    const LockGuard lock(mutex);
    while (!may_sample(batch.size)) {
      held_batch = sample_held.holding() ? std::min<std::uint64_t>(held_batch, batch.size) : batch.size;
      sample_held.hold();
      if (!deadline) return nullptr;
      if (!sample_allowed.wait_until(mutex, *deadline) && !may_sample(batch.size)) return nullptr;
    }
    draw_keys(*made);
    limiter.sampled(batch.size);
    counters.samples += batch.size;
    wake = end_holds();
  }
  if (wake) wakers.wake_all();
  made->prepare(0);
  return made;
}

void Table::Impl::draw_on(Draw& draw) {
  const std::size_t begin = draw.drawn_->count;
  bool wake = false;
  {
    const LockGuard lock(mutex);
    draw_keys(draw);
    wake = unpinned_one();
  }
  if (wake) wakers.wake_all();
  draw.prepare(begin);
}

void Table::Impl::draw_keys(Draw& draw) {
  DrawnKeys& drawn = *draw.drawn_;
  const std::size_t begin = drawn.count;
  const std::size_t end = tree ? std::min(begin + kKeysAtATime, drawn.keys.size()) : drawn.keys.size();
  if (transitions.size() == 0) {
    draw_again(end, drawn);
  } else if (tree) {
    draw_prioritized(*tree, transitions, random, end, drawn);
  } else {
    draw_uniform(transitions, random, drawn);
  }
  drawn.count = end;
  const auto keys = std::span(drawn.keys).subspan(begin, end - begin);
  const std::uint64_t oldest = *std::ranges::min_element(keys);
  if (draw.pin_) {
    pins.move(*draw.pin_, oldest);
  } else {
    draw.pin_ = pins.add(oldest);
  }
}

}  // namespace headrace
