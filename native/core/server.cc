#include "core/server.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <tuple>
#include <utility>

#include "core/entropy.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kNamesShown = 16;  // in a message

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

[[noreturn]] void refuse_limit(const std::string& what, std::size_t limit) {
  throw Error(ErrorKind::kRefused,
              what + ": there are " + std::to_string(limit) + " already, which is the limit; it is not made");
}

// Makes `share` one of as many bytes, where it is less.
void cover(MemoryBudget::Share& share, std::uint64_t bytes, MemoryBudget& budget, const std::string& name) {
  if (bytes > share.bytes()) share.add(budget.take(bytes - share.bytes(), "table " + quoted(name)));
}

void check_same(const std::string& name, const TableOptions& held, const TableOptions& asked) {
  const auto parts = [](const TableOptions& options) {  // the tolerance depends on the number of actors, too
    return std::tie(options.signature, options.capacity, options.sampler, options.priority_exponent,
                    options.limiter.samples_per_insert, options.limiter.min_size);
  };
  if (parts(held) == parts(asked)) return;
  const auto describe = [](const TableOptions& options) {
    return options.signature.encode() + " with capacity " + std::to_string(options.capacity) + ", " +
           (options.sampler == Sampler::kUniform
                ? "uniform"
                : "prioritized with exponent " + std::to_string(options.priority_exponent)) +
           ", samples_per_insert " + std::to_string(options.limiter.samples_per_insert) + " and min_size " +
           std::to_string(options.limiter.min_size);
  };
  throw Error(ErrorKind::kRefused, "table " + quoted(name) + " holds " + describe(held) + ", but " + describe(asked) +
                                       " is requested; resume with its original settings, or drop it first");
}

}  // namespace

Server::Server(ServerOptions options)
    : options_(std::move(options)), instance_(draw_entropy()), budget_(options_.memory_bytes) {
  if (options_.shard_save_period.count() <= 0) {
    throw Error(ErrorKind::kInvalid, "shard_save_seconds: " + std::to_string(options_.shard_save_period.count()) +
                                         " ms given, above 0 required");
  }
  if (options_.data.empty()) return;
  store_ = std::make_unique<TableStore>(options_.data);
  const std::vector<TableStore::Kept> found = store_->recover();
  notices_ = store_->notices();
  for (const TableStore::Kept& kept : found) {
    const std::string what = "table " + quoted(kept.name) + " of " + kept.settings;
    try {
      auto share = budget_.take(Table::memory_bytes(kept.options), what);
      auto table = std::make_shared<Table>(kept.options);
      if (const TableStats stats = table->stats(); stats.lost > 0) {
        notices_.push_back("table " + quoted(kept.name) + ": " + std::to_string(stats.lost) +
                           " transitions of its file " + kept.options.path + " are damaged or missing, and lost; " +
                           std::to_string(stats.recovered) + " were read back");
      }
      if (!tables_.try_emplace(kept.name, Entry{std::move(table), std::move(share), true}).second) {
        throw Error(ErrorKind::kInvalid, "there are two tables of that name");
      }
    } catch (const Error& error) {  // checksums hold, so settings that are not valid are those of another version
      if (error.kind() != ErrorKind::kInvalid) throw;
      throw Error(ErrorKind::kCorrupt, what + ": " + error.what());
    }
  }
  std::ranges::move(shards_.keep_in(options_.data), std::back_inserter(notices_));
  const bool claims = !tables_.empty() || !shards_.list().empty();
  if (std::string note = claims_.keep_in(options_.data, claims); !note.empty()) notices_.push_back(std::move(note));
  saver_ = std::make_unique<ShardSaver>(shards_, options_.shard_save_period);
}

std::vector<std::string> Server::notices() const {
  std::vector<std::string> notices = notices_;
  if (saver_) std::ranges::move(saver_->warnings(), std::back_inserter(notices));
  return notices;
}

void Server::check_open() const {
  if (closed_) throw Error(ErrorKind::kClosed, "the server is closed");
}

Server::Entry* Server::entry(const std::string& name) {
  const LockGuard lock(mutex_);
  const auto found = tables_.find(name);
  return found != tables_.end() ? &found->second : nullptr;
}

std::shared_ptr<Table> Server::find(const std::string& name) const {
  const LockGuard lock(mutex_);
  const auto found = tables_.find(name);
  return found != tables_.end() ? found->second.table : nullptr;
}

std::vector<std::shared_ptr<Table>> Server::all_tables() const {
  const LockGuard lock(mutex_);
  std::vector<std::shared_ptr<Table>> tables;
  for (const auto& [name, entry] : tables_) tables.push_back(entry.table);
  return tables;
}

// Tables to close after all locks are released, so that waiting callers can be notified.
struct Server::Removed {
  std::vector<std::shared_ptr<Table>> tables;
  MemoryBudget::Share share;  // the last one's
  ~Removed() {
    for (const auto& table : tables) table->retire();
  }
};

std::shared_ptr<Table> Server::make(const std::string& name, TableOptions options, MemoryBudget::Share share) {
  {
    const LockGuard lock(mutex_);
    if (tables_.size() >= kMaxTables) refuse_limit("table " + quoted(name), kMaxTables);
  }
  const std::uint64_t bytes = Table::memory_bytes(options);
  cover(share, bytes, budget_, name);
  share.shrink(bytes);
  const bool kept = store_ && options.path.empty();
  if (kept) options.path = store_->next_arena();
  std::shared_ptr<Table> table;
  try {
    table = std::make_shared<Table>(options);
    if (kept) store_->keep(name, table->options());
  } catch (...) {
    if (kept) store_->remove(options.path);
    throw;
  }
  const LockGuard lock(mutex_);
  tables_.try_emplace(name, Entry{table, std::move(share), kept});
  return table;
}

void Server::remove(const std::string& name, Removed& removed) {
  Entry& found = *entry(name);
  const bool kept = found.kept;
  const std::string path = found.table->options().path;
  if (kept) store_->forget(path);  // without settings, later inserts would be lost at the next start
  {
    const LockGuard lock(mutex_);
    removed.tables.push_back(std::move(found.table));
    removed.share = std::move(found.share);
    tables_.erase(name);
  }
  if (kept) {
    store_->remove(path);
  } else if (!path.empty()) {
    unlink(path.c_str());
  }
}

std::shared_ptr<Table> Server::add_table(const std::string& name, TableOptions options) {
  const LockGuard changing(change_mutex_);
  check_open();
  if (find(name)) {
    throw Error(ErrorKind::kInvalid,
                "table " + quoted(name) + " exists already; names must differ, and the first one stays");
  }
  return make(name, std::move(options), {});
}

std::shared_ptr<Table> Server::open_table(const std::string& name, TableOptions options, bool fresh) {
  const std::uint64_t bytes = Table::memory_bytes(options);  // if they are invalid, the old table stays
  MemoryBudget::Share share;
  for (;;) {
    std::shared_ptr<Table> table;
    Removed removed;
    {
      const LockGuard changing(change_mutex_);
      check_open();
      Entry* const found = entry(name);
      if (found == nullptr) return make(name, options, std::move(share));
      if (fresh) {  // then start over: its memory and its file are released before the new table is made
        const std::uint64_t held = found->share.bytes();
        if (bytes > held) cover(share, bytes - held, budget_, name);
        remove(name, removed);
        share.add(std::move(removed.share));
        continue;
      }
      table = found->table;
      check_same(name, table->options(), options);
      table->reopen();
    }
    table->set_paused(false);
    return table;
  }
}

std::shared_ptr<Table> Server::table(const std::string& name) const {
  if (auto found = find(name)) return found;
  const std::vector<std::string> names = table_names();
  std::string there;
  for (std::size_t i = 0; i < std::min(names.size(), kNamesShown); ++i) there += (i > 0 ? ", " : "") + quoted(names[i]);
  if (names.size() > kNamesShown) there += " and " + std::to_string(names.size() - kNamesShown) + " more";
  throw Error(ErrorKind::kNotFound,
              "table " + quoted(name) + " is not on this server; it has " + (there.empty() ? "no tables" : there));
}

std::vector<std::string> Server::table_names() const {
  const LockGuard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : tables_) names.push_back(name);
  return names;
}

void Server::set_state(const std::string& name, TableState state) {
  const auto changed = table(name);
  if (state == TableState::kClosed) return changed->close();
  changed->reopen();
  changed->set_paused(state == TableState::kPaused);
}

std::shared_ptr<Mailbox> Server::mailbox(const std::string& name) {
  const LockGuard lock(mutex_);
  const auto found = mailboxes_.find(name);
  if (found != mailboxes_.end()) return found->second;
  if (mailboxes_.size() >= kMaxMailboxes) refuse_limit("mailbox " + quoted(name), kMaxMailboxes);
  return mailboxes_.emplace(name, std::make_shared<Mailbox>(budget_)).first->second;
}

std::shared_ptr<Mailbox> Server::find_mailbox(const std::string& name) const {
  const LockGuard lock(mutex_);
  const auto found = mailboxes_.find(name);
  return found != mailboxes_.end() ? found->second : nullptr;
}

std::map<std::string, std::shared_ptr<Mailbox>> Server::mailboxes() const {
  const LockGuard lock(mutex_);
  return mailboxes_;
}

std::size_t Server::drop(std::string_view prefix) {
  Removed removed;  // before the locks, as are the mailboxes: done without them, also where a file can't be removed
  std::vector<std::shared_ptr<Mailbox>> mailboxes;
  const LockGuard changing(change_mutex_);
  for (const std::string& name : table_names()) {
    if (name.starts_with(prefix)) remove(name, removed);
  }
  {
    const LockGuard lock(mutex_);
    for (auto at = mailboxes_.begin(); at != mailboxes_.end();) {
      const auto next = std::next(at);
      if (at->first.starts_with(prefix)) mailboxes.push_back(std::move(mailboxes_.extract(at).mapped()));
      at = next;
    }
  }
  return removed.tables.size() + mailboxes.size() + parameters_.drop(prefix) + shards_.drop(prefix);
}

std::shared_ptr<ConnectionMeter> Server::add_meter(std::string peer) {
  auto meter = std::make_shared<ConnectionMeter>();
  meter->peer = std::move(peer);
  meter->since = std::chrono::steady_clock::now();
  const LockGuard lock(mutex_);
  std::erase_if(meters_, [](const auto& other) { return other.expired(); });
  meters_.push_back(meter);
  return meter;
}

std::vector<std::shared_ptr<const ConnectionMeter>> Server::meters() const {
  const LockGuard lock(mutex_);
  std::vector<std::shared_ptr<const ConnectionMeter>> meters;
  for (const auto& meter : meters_) {
    if (auto held = meter.lock()) meters.push_back(std::move(held));
  }
  return meters;
}

void Server::close() {
  {
    const LockGuard changing(change_mutex_);
    closed_ = true;
  }
  const auto tables = all_tables();
  for (const auto& table : tables) table->retire();
  std::exception_ptr failed;
  for (const auto& table : tables) {
    try {
      table->flush();
    } catch (const Error&) {
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

void Server::close_shards() {
  if (!saver_) return;
  saver_->stop();
  auto failed = shards_.save();
  failed.merge(shards_.flush());
  for (const auto& [name, why] : failed) throw Error(ErrorKind::kSystem, "shard " + quoted(name) + ": " + why);
}

}  // namespace headrace
