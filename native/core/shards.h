// Shards of parameters under names.
//
// Threading: every method may be called from any thread. A dropped shard is freed with its last reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/memory_budget.h"
#include "core/mutex.h"
#include "core/shard.h"

namespace headrace {

class Shards {
 public:
  static constexpr std::size_t kMaxShards = 4096;

  explicit Shards(MemoryBudget& budget) : budget_(budget) {}  // which outlives it and its shards

  // Makes a shard of the initial values, if `fresh` instead of the one of that name. Otherwise returns the existing
  // shard, which must have the same options (kRefused) and needs no initial values. kNotFound: there is no such shard,
  // and no initial values were given. Also throws as Shard(), and kRefused at kMaxShards.
  std::shared_ptr<Shard> open(const std::string& name, const ShardOptions& options, bool fresh,
                              std::span<const std::byte> initial);
  std::shared_ptr<Shard> find(const std::string& name) const;  // kNotFound
  std::vector<std::pair<std::string, std::shared_ptr<Shard>>> list() const;
  std::size_t drop(std::string_view prefix);  // every shard whose name has that prefix; returns their number

 private:
  std::shared_ptr<Shard> at(const std::string& name) const EXCLUDES(mutex_);  // null where there is none

  MemoryBudget& budget_;
  Mutex change_mutex_ ACQUIRED_BEFORE(mutex_);  // one shard is made at a time
  std::size_t next_lane_ GUARDED_BY(change_mutex_) = 0;
  mutable Mutex mutex_;  // held for microseconds
  std::map<std::string, std::shared_ptr<Shard>> shards_ GUARDED_BY(mutex_);
};

}  // namespace headrace
