// The server: tables, parameters, shards and mailboxes under names. It does not depend on sockets; sessions call it.
//
// With a data directory, tables live in files there, each with a settings file, and a server that restarts on the
// directory restores them: experience with its priorities, as of the last acknowledged insert even after kill -9. The
// paused and closed states are not kept, nor are blobs and mailboxes (their owners publish and put again). Shards are
// saved at intervals by a thread of the server, and restored as of their last save. Names that a learner has claimed
// stay reserved for it for a while.
//
// Threading: every method may be called from any thread. Tables are created, opened and dropped one at a time, which
// takes as long as their file operations and blocks nothing else. A dropped table is closed; its memory and the blocks
// of its file are released with the last reference.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/claims.h"
#include "core/mailbox.h"
#include "core/memory_budget.h"
#include "core/mutex.h"
#include "core/parameters.h"
#include "core/shard_saver.h"
#include "core/shards.h"
#include "core/table.h"
#include "core/table_store.h"

namespace headrace {

struct ServerOptions {
  std::string data = {};                                  // directory, made if it is missing; empty: memory alone
  std::uint64_t memory_bytes = MemoryBudget::kUnlimited;  // for tables, blobs, shards, messages, connections' buffers
  std::chrono::milliseconds shard_save_period{1000};      // no shard's file is older than this after a kill -9
};

// What one connection has done; written by its session, read by any thread.
struct ConnectionMeter {
  std::string peer;
  std::chrono::steady_clock::time_point since;
  std::atomic<std::uint64_t> requests = 0, received_bytes = 0, sent_bytes = 0;
  std::atomic<bool> blocked = false;  // a request of it waits for a limiter
};

enum class TableState : std::uint8_t { kOpen = 0, kPaused = 1, kClosed = 2 };

class Server {
 public:
  static constexpr std::size_t kMaxTables = 1024;
  static constexpr std::size_t kMaxMailboxes = 4096;

  // Restores the tables and shards in `data`. Throws kSystem, kCorrupt, kMismatch, kRefused (they take more than
  // memory_bytes; another server has the directory), naming the file.
  explicit Server(ServerOptions options = {});

  std::uint64_t instance() const { return instance_; }  // a random number, different after every start
  const std::string& data() const { return options_.data; }
  // Warnings for the user, a line each: first those of the start (files of the data directory that were set aside,
  // experience and updates that could not be read back), then shards that could not be saved.
  std::vector<std::string> notices() const;
  std::chrono::steady_clock::time_point since() const { return since_; }
  MemoryBudget& budget() { return budget_; }

  // kInvalid: the name is taken. kRefused: the budget, or kMaxTables. `options.path` empty: in `data`, where there is
  // one. kClosed after close(), as the other two that make or open tables.
  std::shared_ptr<Table> add_table(const std::string& name, TableOptions options);
  // For a learner that starts (`fresh`: a table of that name is dropped with its experience, unless the options or the
  // budget do not allow the new one) or resumes (the table is reopened unchanged if its signature and capacity are
  // those requested, else kRefused; it is created if it does not exist).
  std::shared_ptr<Table> open_table(const std::string& name, TableOptions options, bool fresh);
  std::shared_ptr<Table> table(const std::string& name) const;  // kNotFound, naming the existing tables
  std::vector<std::string> table_names() const;
  // Waits for no file. kNotFound; kClosed where the table is dropped meanwhile, and after close().
  void set_state(const std::string& name, TableState state);

  Parameters& parameters() { return parameters_; }
  Shards& shards() { return shards_; }
  std::shared_ptr<Mailbox> mailbox(const std::string& name);  // made at first use; kRefused beyond kMaxMailboxes
  std::shared_ptr<Mailbox> find_mailbox(const std::string& name) const;  // null where there is none
  std::map<std::string, std::shared_ptr<Mailbox>> mailboxes() const;
  Claims& claims() { return claims_; }
  // Removes tables (with their files), blobs, shards and mailboxes whose name has that prefix. Returns their number.
  std::size_t drop(std::string_view prefix);

  std::shared_ptr<ConnectionMeter> add_meter(std::string peer);  // listed while the caller holds it
  std::vector<std::shared_ptr<const ConnectionMeter>> meters() const;

  void close();  // closes every table for good, and writes what lies in files to the disk; throws kSystem
  // Saves the shards for the last time, on the disk, after all requests; throws kSystem, after every other is there.
  void close_shards();

 private:
  struct Entry {
    std::shared_ptr<Table> table;
    MemoryBudget::Share share;
    bool kept;  // in store_
  };
  struct Removed;

  void check_open() const REQUIRES(change_mutex_);
  // Null where there is none. It stays, and stays as it is, while change_mutex_ is held.
  Entry* entry(const std::string& name) REQUIRES(change_mutex_) EXCLUDES(mutex_);
  // `share` grows to what the table takes; kRefused where the budget has no more.
  std::shared_ptr<Table> make(const std::string& name, TableOptions options, MemoryBudget::Share share)
      REQUIRES(change_mutex_) EXCLUDES(mutex_);
  // Moves a table and its share into `removed`. Throws kSystem if its files cannot be removed: the table stays if they
  // are all still there, and otherwise is in `removed`.
  void remove(const std::string& name, Removed& removed) REQUIRES(change_mutex_) EXCLUDES(mutex_);

  std::shared_ptr<Table> find(const std::string& name) const EXCLUDES(mutex_);  // null where there is none
  std::vector<std::shared_ptr<Table>> all_tables() const EXCLUDES(mutex_);

  const ServerOptions options_;
  const std::uint64_t instance_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::vector<std::string> notices_;
  MemoryBudget budget_;  // before all members that return shares to it

  Mutex change_mutex_ ACQUIRED_BEFORE(mutex_);  // one change of tables_ at a time
  std::unique_ptr<TableStore> store_ GUARDED_BY(change_mutex_) PT_GUARDED_BY(change_mutex_);
  bool closed_ GUARDED_BY(change_mutex_) = false;

  mutable Mutex mutex_;  // never held over a call that takes long
  std::map<std::string, Entry> tables_ GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<Mailbox>> mailboxes_ GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<ConnectionMeter>> meters_ GUARDED_BY(mutex_);
  Parameters parameters_{budget_};
  Shards shards_{budget_};
  Claims claims_;
  std::unique_ptr<ShardSaver> saver_;  // null: without a data directory. After the shards that it saves
};

}  // namespace headrace
