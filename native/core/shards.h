// Shards of parameters under names, in memory or kept in a directory.
//
// Threading: every method may be called from any thread. A dropped shard is freed with its last reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "core/shard_store.h"

namespace headrace {

class Shards {
 public:
  static constexpr std::size_t kMaxShards = 4096;

  explicit Shards(MemoryBudget& budget) : budget_(budget) {}  // which outlives it and its shards

  // Restores the shards in the directory, and keeps all shards there from now on; to be called first. Returns warnings
  // for the user. Throws as ShardStore::recover().
  std::vector<std::string> keep_in(const std::string& directory);

  // Makes a shard of the initial values, if `fresh` instead of the one of that name. Otherwise returns the existing
  // shard, which must have the same options (kRefused) and needs no initial values. kNotFound: there is no such shard,
  // and no initial values were given. Also throws as Shard(), and kRefused at kMaxShards. A shard that is kept is in
  // its file when this returns (kSystem); likewise for load(), whose other errors are those of Shard::load().
  std::shared_ptr<Shard> open(const std::string& name, const ShardOptions& options, bool fresh,
                              std::span<const std::byte> initial);
  void load(const std::string& name, std::uint64_t steps, std::span<const std::byte> state);  // kNotFound
  std::shared_ptr<Shard> find(const std::string& name) const;                                 // kNotFound
  std::vector<std::pair<std::string, std::shared_ptr<Shard>>> list() const;
  // Every shard whose name has that prefix, with its file (kSystem); returns their number.
  std::size_t drop(std::string_view prefix);

  // Writes the shards that changed to their files. Returns a message for each that could not be written, by name.
  std::map<std::string, std::string> save();
  std::map<std::string, std::string> flush();  // likewise: what was written is on the disk

 private:
  std::map<std::string, std::string> for_each(const std::function<void(Shard&)>& act);
  std::shared_ptr<Shard> at(const std::string& name) const EXCLUDES(mutex_);  // null where there is none

  MemoryBudget& budget_;
  Mutex change_mutex_ ACQUIRED_BEFORE(mutex_);  // one shard is made at a time
  std::size_t next_lane_ GUARDED_BY(change_mutex_) = 0;
  std::unique_ptr<ShardStore> store_;  // set by keep_in()
  mutable Mutex mutex_;                // held for microseconds
  std::map<std::string, std::shared_ptr<Shard>> shards_ GUARDED_BY(mutex_);
};

}  // namespace headrace
