// The directory in which a server keeps its shards, each in a file `shard-N.slots`.
//
// A shard exists from the moment its file has its final name, and is dropped with the file. A file that can't be used,
// or that was never finished, is set aside at the start: the run it belongs to continues from a checkpoint.
//
// Threading: save() from any thread; the rest from one thread at a time. The owner's lock on the directory (TableStore)
// keeps other processes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/huge_array.h"
#include "core/memory_budget.h"
#include "core/mutex.h"
#include "core/shard.h"

namespace headrace {

class ShardStore {
 public:
  using Kept = std::vector<std::pair<std::string, std::shared_ptr<Shard>>>;

  ShardStore(std::string directory, MemoryBudget& budget) : directory_(std::move(directory)), budget_(budget) {}

  // What is kept, in the order in which it was made; to be called first. Shards get lanes from 0. Adds a line to
  // `notices` for each file that was set aside or is damaged, and for each shard that lost updates. kSystem; kRefused,
  // naming the file, where the budget has no room.
  Kept recover(std::vector<std::string>& notices);
  // The shard exists from now on, in the file of the one that it replaces, if there is one. Throws kSystem, and
  // kRefused where the budget has no room for the copy that saving needs.
  void keep(const std::string& name, Shard& shard, Shard* replaced);
  void remove(Shard& shard);  // with its file; throws kSystem
  void release();             // memory for copies, when no shard is left
  void save(Shard& shard);    // as Shard::save(); nothing where it was replaced or removed meanwhile

 private:
  std::shared_ptr<Shard> restore(const std::string& path, std::size_t lane, std::string& name,
                                 std::vector<std::string>& notices) EXCLUDES(copying_);
  std::span<std::byte> room(std::size_t bytes) REQUIRES(copying_);

  const std::string directory_;
  MemoryBudget& budget_;
  std::uint64_t next_number_ = 1;
  Mutex copying_;  // one copy at a time, while it is written too
  std::optional<HugeArray<std::byte>> copy_ GUARDED_BY(copying_);
  MemoryBudget::Share share_ GUARDED_BY(copying_);
};

}  // namespace headrace
