#include "core/shard_saver.h"

#include <algorithm>
#include <utility>

#include "core/quiet_thread.h"

namespace headrace {

using Clock = std::chrono::steady_clock;

ShardSaver::ShardSaver(Shards& shards, std::chrono::milliseconds period)
    : shards_(shards), period_(period), thread_(start_quiet_thread([this] { run(); })) {}

void ShardSaver::stop() {
  const LockGuard one(stop_mutex_);
  {
    const LockGuard lock(mutex_);
    stop_ = true;
    stopping_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> ShardSaver::warnings() const {
  const LockGuard lock(mutex_);
  return warnings_;
}

void ShardSaver::run() {
  auto next = Clock::now() + period_;
  for (bool last = false; !last;) {
    {
      const LockGuard lock(mutex_);
      while (!stop_ && stopping_.wait_until(mutex_, next)) continue;
      last = stop_;
    }
    const auto begin = Clock::now();
    save();
    const auto took = Clock::now() - begin;
    next = begin + std::max(period_ - took, 2 * took);
  }
}

void ShardSaver::save() {
  auto failing = shards_.save();
  for (const auto& [name, why] : failing) {
    if (failing_.contains(name)) continue;
    const LockGuard lock(mutex_);
    warnings_.push_back("shard \"" + name + "\" could not be saved; the next save tries again: " + why);
  }
  failing_ = std::move(failing);
}

}  // namespace headrace
