// A naive twin of Table: transitions in a plain list, each with its stacks spelled out. It shares no code with the
// core but the chunk's layout.
#pragma once

#include <cmath>
#include <deque>
#include <map>

#include "core_fixtures.h"

namespace headrace::fixtures {

class TableTwin {
 public:
  struct Transition {
    std::vector<std::array<float, 2>> observation, next_observation;  // [K]
    std::int32_t action;
    float reward, discount, priority;
    std::uint64_t policy_version;
  };

  TableTwin(const Signature& signature, std::uint64_t capacity, std::size_t capacity_bytes, double exponent)
      : stack_(signature.stack),
        capacity_(capacity),
        ring_bytes_((capacity_bytes + 63) / 64 * 64),
        exponent_(exponent) {}

  std::uint64_t insert(const PlainChunk& chunk, std::size_t bytes) {
    const std::uint64_t steps = chunk.action.size();
    while (transitions_.size() + steps > capacity_) evict();
    place((bytes + 63) / 64 * 64, steps);
    const std::uint64_t first_key = next_key_;
    const float unknown = max_priority();
    for (std::size_t t = 0; t < steps; ++t) {
      const float priority = chunk.priority[t] == kUnknownPriority ? unknown : chunk.priority[t];
      transitions_[next_key_++] = {stacked(chunk, chunk.first[t]),
                                   stacked(chunk, chunk.last[t]),
                                   chunk.action[t],
                                   chunk.reward[t],
                                   chunk.discount[t],
                                   priority,
                                   chunk.policy_version[t]};
    }
    return first_key;
  }

  std::uint64_t update(const std::vector<std::uint64_t>& keys, const std::vector<float>& priorities) {
    std::uint64_t applied = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto found = transitions_.find(keys[i]);
      if (found == transitions_.end()) continue;
      found->second.priority = priorities[i];
      ++applied;
    }
    return applied;
  }

  double weight(const Transition& transition) const {
    return std::pow(static_cast<double>(std::max(transition.priority, 1e-6f)), exponent_);
  }
  // Cumulative weight before and after each key, in order of slots.
  std::map<std::uint64_t, std::pair<double, double>> spans() const {
    std::map<std::uint64_t, std::uint64_t> by_slot;
    for (const auto& [key, transition] : transitions_) by_slot[key % capacity_] = key;
    std::map<std::uint64_t, std::pair<double, double>> result;
    double sum = 0;
    for (const auto& [slot, key] : by_slot) {
      const double before = sum;
      sum += weight(transitions_.at(key));
      result[key] = {before, sum};
    }
    return result;
  }

  const std::map<std::uint64_t, Transition>& transitions() const { return transitions_; }
  float max_priority() const {
    if (transitions_.empty()) return 1;
    float largest = 0;
    for (const auto& [key, transition] : transitions_) largest = std::max(largest, transition.priority);
    return largest;
  }
  std::uint64_t next_key() const { return next_key_; }
  std::uint64_t chunks() const { return chunks_.size(); }

 private:
  struct Stored {
    std::size_t begin, end;
    std::uint64_t steps;
  };

  std::vector<std::array<float, 2>> stacked(const PlainChunk& chunk, std::uint32_t row) const {
    std::vector<std::array<float, 2>> frames;
    for (std::int64_t at = std::int64_t{row} - stack_ + 1; at <= row; ++at) {
      frames.push_back(chunk.rows[static_cast<std::size_t>(std::max<std::int64_t>(0, at))]);
    }
    return frames;
  }

  // Behind the newest chunk, or at the ring's beginning where it does not fit before the end; what lies there goes.
  void place(std::size_t bytes, std::uint64_t steps) {
    const std::size_t begin = head_ + bytes <= ring_bytes_ ? head_ : 0;
    const auto overlaps = [&](const Stored& chunk) { return begin < chunk.end && chunk.begin < begin + bytes; };
    while (std::any_of(chunks_.begin(), chunks_.end(), overlaps)) evict();
    chunks_.push_back({begin, begin + bytes, steps});
    head_ = begin + bytes;
  }

  void evict() {
    for (std::uint64_t i = 0; i < chunks_.front().steps; ++i) transitions_.erase(transitions_.begin());
    chunks_.pop_front();
  }

  std::uint32_t stack_;
  std::uint64_t capacity_;
  std::size_t ring_bytes_;
  double exponent_;
  std::map<std::uint64_t, Transition> transitions_;
  std::deque<Stored> chunks_;
  std::size_t head_ = 0;
  std::uint64_t next_key_ = 0;
};

}  // namespace headrace::fixtures
