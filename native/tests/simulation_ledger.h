// What clients of a simulation sent, what was acknowledged, and whether a table has it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arena_fixtures.h"
#include "simulation.h"

namespace headrace::testing {

// Of a table: what lies under each key.
struct Stored {
  std::uint64_t tag;
  float priority;
};
using Contents = std::map<std::uint64_t, Stored>;

class Ledger {
 public:
  struct Chunk {
    std::uint64_t first_tag;
    std::uint32_t steps;
    bool acknowledged = false;
  };

  Ledger(Chance& chance, bool evicts) : chance_(chance), evicts_(evicts) {}

  // Each of its transitions has its own tag.
  std::pair<std::size_t, Bytes> make_chunk(std::uint32_t steps) {
    const std::uint64_t tag = next_tag_;
    next_tag_ += steps;
    chunks_.push_back({tag, steps});
    by_tag_[tag] = chunks_.size() - 1;
    auto plain = fixtures::PlainChunk::of(steps, 1, static_cast<float>(tag));
    for (std::uint32_t i = 0; i < steps; ++i) {
      plain.priority[i] = chance_.one_in(8) ? kUnknownPriority : static_cast<float>(chance_.between(1, kMostPriority));
      possible_.push_back({plain.priority[i], {plain.priority[i]}});
    }
    return {chunks_.size() - 1, plain.bytes(fixtures::small_signature())};
  }
  void acknowledge(std::size_t chunk) { chunks_[chunk].acknowledged = true; }
  void acknowledge(std::size_t chunk, std::uint64_t key) {
    acknowledge(chunk);
    for (std::uint32_t i = 0; i < chunks_[chunk].steps; ++i) see(key + i, chunks_[chunk].first_tag + i);
  }
  std::uint64_t transitions() const { return next_tag_; }

  // A client was told that this key has this tag.
  void see(std::uint64_t key, std::uint64_t tag) {
    require(tag < next_tag_, "a transition that no client sent");
    const auto [seen, is_new] = seen_.emplace(key, tag);
    require(seen->second == tag, "key " + std::to_string(key) + " is used twice");
  }
  void check_transition(std::uint64_t tag, float reward, std::int32_t action, std::span<const float> observation,
                        std::span<const float> next_observation) const {
    const Chunk& chunk = chunks_[std::prev(by_tag_.upper_bound(tag))->second];
    const auto step = static_cast<float>(tag - chunk.first_tag), first = static_cast<float>(chunk.first_tag);
    require(reward == static_cast<float>(tag) && action == static_cast<std::int32_t>(tag) && observation[0] == first &&
                observation[1] == step && next_observation[0] == first && next_observation[1] == step + 1,
            "a transition is damaged");
  }

  // A priority that may be set from now on, and one that was.
  void begin_update(std::uint64_t tag, float priority) { possible_[tag].values.insert(priority); }
  void end_update(std::uint64_t tag, float priority) { possible_[tag].values = {priority}; }

  // After a power loss, keys and priorities may be older than what clients were told.
  void lose_power() {
    seen_.clear();
    power_lost_ = true;
  }
  bool power_lost() const { return power_lost_; }
  // After a kill, writers whose chunks were all evicted are forgotten, and what they send again is stored again.
  void forget_writers() { may_repeat_ = true; }

  // A table's: chunks are whole, there once, under the keys that clients know, with their priorities. Without
  // evictions and power loss each acknowledged one is there.
  void check(const Contents& contents, std::uint64_t next_key) {
    std::uint64_t key = contents.empty() ? next_key : contents.begin()->first;
    std::set<std::size_t> there;
    for (auto at = contents.begin(); at != contents.end();) {
      const auto found = by_tag_.find(at->second.tag);
      require(found != by_tag_.end(), "a chunk without its beginning, at key " + std::to_string(key));
      require(there.insert(found->second).second, "a chunk is stored twice, at key " + std::to_string(key));
      const Chunk& chunk = chunks_[found->second];
      for (std::uint32_t i = 0; i < chunk.steps; ++i, ++at, ++key) {
        require(at != contents.end() && at->first == key && at->second.tag == chunk.first_tag + i,
                "a chunk is not whole, at key " + std::to_string(key));
        see(key, at->second.tag);
        require(possible_[at->second.tag].has(at->second.priority, may_repeat_) || power_lost_,
                "key " + std::to_string(key) + " has priority " + std::to_string(at->second.priority) +
                    ", which it should not");
      }
    }
    for (std::size_t id = 0; id < chunks_.size() && !evicts_ && !power_lost_; ++id)
      require(!chunks_[id].acknowledged || there.contains(id), "an acknowledged chunk was lost");
    require(key == next_key, "keys do not go on to the next one");
    require(!seen_.empty() || next_key == 0 || power_lost_ || !contents.empty(), "keys began above 0");
    require(seen_.empty() || seen_.rbegin()->first < next_key || power_lost_, "a key that was given is free again");
  }

  // At the end, all chunks are acknowledged: as many transitions were stored as were sent.
  void check_sum(std::uint64_t next_key) const {
    for (const Chunk& chunk : chunks_) require(chunk.acknowledged, "a chunk was not acknowledged");
    require(next_key >= next_tag_, "an acknowledged chunk was lost");
    require(may_repeat_ || next_key == next_tag_, "a chunk was stored twice");
  }

  static constexpr std::uint64_t kMostPriority = 4;

 private:
  struct Possible {
    bool has(float priority, bool sent_again) const {
      if (values.contains(kUnknownPriority) || values.contains(priority)) return true;
      return sent_again && (first == priority || first == kUnknownPriority);
    }
    float first;             // as sent; unknown: it takes the largest that the table has
    std::set<float> values;  // which it may have now
  };

  Chance& chance_;
  const bool evicts_;
  std::vector<Chunk> chunks_;
  std::map<std::uint64_t, std::size_t> by_tag_;  // by the first
  std::vector<Possible> possible_;               // by tag
  std::map<std::uint64_t, std::uint64_t> seen_;  // tags by key
  std::uint64_t next_tag_ = 0;
  bool power_lost_ = false;
  bool may_repeat_ = false;
};

// All that a table holds. Priorities are whole numbers from 1 to kMostPriority, and weigh as much: of twice as many
// strata as that sums up to, each transition has one for itself.
inline Contents contents_of(Table& table) {
  Contents contents;
  const TableStats stats = table.stats();
  if (stats.size == 0) return contents;
  fixtures::Buffers batch(fixtures::small_signature(), 2 * static_cast<std::uint32_t>(std::lround(stats.total_weight)));
  require(table.try_sample(batch.view, 0), "a table does not show what it holds");
  for (std::size_t i = 0; i < batch.key.size(); ++i) {
    const double weight = static_cast<double>(batch.probability[i]) * stats.total_weight;
    contents[batch.key[i]] = {batch.policy_version[i], static_cast<float>(std::round(weight))};
  }
  require(contents.size() == stats.size, "a table does not hold as much as it counts");
  return contents;
}

// The table's options for that. After a power loss, priorities may be any numbers.
inline TableOptions shown(TableOptions options, bool power_lost) {
  options.sampler = power_lost ? Sampler::kUniform : Sampler::kPrioritized;
  options.priority_exponent = 1;
  options.limiter = {};
  return options;
}

}  // namespace headrace::testing
