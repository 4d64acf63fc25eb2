#include "core/shards.h"

#include <exception>

#include "core/error.h"

namespace headrace {
namespace {

[[noreturn]] void fail(ErrorKind kind, const std::string& name, const std::string& why) {
  throw Error(kind, "shard \"" + name + "\" " + why);
}

void check_same(const std::string& name, const ShardOptions& held, const ShardOptions& asked) {
  if (held == asked) return;
  const auto describe = [](const ShardOptions& options) {
    auto text = options.encode();
    text[text.find('\n')] = ';';
    return text;
  };
  fail(ErrorKind::kRefused, name,
       "has " + describe(held) + ", but " + describe(asked) +
           " is requested; resume with its original settings, or drop it first");
}

}  // namespace

std::shared_ptr<Shard> Shards::at(const std::string& name) const {
  const LockGuard lock(mutex_);
  const auto found = shards_.find(name);
  return found != shards_.end() ? found->second : nullptr;
}

std::shared_ptr<Shard> Shards::open(const std::string& name, const ShardOptions& options, bool fresh,
                                    std::span<const std::byte> initial) {
  options.check();
  const LockGuard changing(change_mutex_);
  const auto held = at(name);
  if (held && !fresh) {
    check_same(name, held->options(), options);
    return held;
  }
  if (initial.empty()) fail(ErrorKind::kNotFound, name, "is not on this server, and no initial values were given");
  {
    const LockGuard lock(mutex_);
    if (!held && shards_.size() >= kMaxShards) {
      fail(ErrorKind::kRefused, name,
           "is not made: there are " + std::to_string(kMaxShards) + " already, which is the limit");
    }
  }
  auto made = std::make_shared<Shard>(options, initial, budget_, held ? held->lane() : next_lane_);
  if (store_) store_->keep(name, *made, held.get());
  if (!held) ++next_lane_;
  const LockGuard lock(mutex_);
  shards_[name] = made;
  return made;
}

void Shards::load(const std::string& name, std::uint64_t steps, std::span<const std::byte> state) {
  const auto into = find(name);
  into->load(steps, state);
  if (store_) store_->save(*into);
}

std::shared_ptr<Shard> Shards::find(const std::string& name) const {
  if (auto found = at(name)) return found;
  fail(ErrorKind::kNotFound, name, "is not on this server; open it first");
}

std::vector<std::pair<std::string, std::shared_ptr<Shard>>> Shards::list() const {
  const LockGuard lock(mutex_);
  return {shards_.begin(), shards_.end()};
}

std::size_t Shards::drop(std::string_view prefix) {
  std::vector<std::shared_ptr<Shard>> dropped;  // freed after the locks are gone
  const LockGuard changing(change_mutex_);
  bool empty = true;
  for (auto& [name, shard] : list()) {
    if (!name.starts_with(prefix)) {
      empty = false;
      continue;
    }
    if (store_) store_->remove(*shard);
    dropped.push_back(std::move(shard));
    const LockGuard lock(mutex_);
    shards_.erase(name);
  }
  if (store_ && empty) store_->release();
  return dropped.size();
}

std::vector<std::string> Shards::keep_in(const std::string& directory) {
  const LockGuard changing(change_mutex_);
  store_ = std::make_unique<ShardStore>(directory, budget_);
  std::vector<std::string> notices;
  auto kept = store_->recover(notices);
  next_lane_ = kept.size();
  if (kept.empty()) store_->release();
  const LockGuard lock(mutex_);
  for (auto& [name, shard] : kept) shards_.emplace(std::move(name), std::move(shard));
  return notices;
}

// Returns a message for each with which it failed, by name.
std::map<std::string, std::string> Shards::for_each(const std::function<void(Shard&)>& act) {
  std::map<std::string, std::string> failed;
  for (const auto& [name, shard] : list()) {
    try {
      act(*shard);
    } catch (const std::exception& error) {
      failed[name] = error.what();
    }
  }
  return failed;
}

std::map<std::string, std::string> Shards::save() {
  return for_each([this](Shard& shard) { store_->save(shard); });
}

std::map<std::string, std::string> Shards::flush() {
  return for_each([](Shard& shard) {
    if (const auto file = shard.file()) file->flush();
  });
}

}  // namespace headrace
