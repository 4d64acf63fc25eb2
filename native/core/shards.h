// Shards of parameters under names.
//
// Threading: every method may be called from any thread. A shard that is dropped goes with the last who holds it.
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

  // Makes a shard of the initial values, in the place of one of that name where `fresh`; else goes on with that, which
  // must have the same options (kRefused), and needs no initial values. kNotFound: there is none, and no initial values
  // either. Throws as Shard() besides, and kRefused at kMaxShards.
  std::shared_ptr<Shard> open(const std::string& name, const ShardOptions& options, bool fresh,
                              std::span<const std::byte> initial);
  std::shared_ptr<Shard> find(const std::string& name) const;  // kNotFound
  std::vector<std::pair<std::string, std::shared_ptr<Shard>>> list() const;
  std::size_t drop(std::string_view prefix);  // every shard whose name begins so; how many

 private:
  std::shared_ptr<Shard> at(const std::string& name) const EXCLUDES(mutex_);  // null where there is none

  MemoryBudget& budget_;
  Mutex change_mutex_ ACQUIRED_BEFORE(mutex_);  // one shard is made at a time
  std::size_t next_lane_ GUARDED_BY(change_mutex_) = 0;
  mutable Mutex mutex_;  // held for microseconds
  std::map<std::string, std::shared_ptr<Shard>> shards_ GUARDED_BY(mutex_);
};

}  // namespace headrace
