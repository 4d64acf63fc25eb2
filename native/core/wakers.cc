#include "core/wakers.h"

#include <utility>
#include <vector>

namespace headrace {

std::uint64_t Wakers::add(Wake wake) {
  const LockGuard lock(mutex_);
  entries_.emplace(next_id_, std::make_shared<Entry>(Entry{std::move(wake)}));
  return next_id_++;
}

void Wakers::remove(std::uint64_t id) {
  const LockGuard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const std::shared_ptr<Entry> entry = found->second;
  entries_.erase(found);
  while (entry->running > 0) finished_.wait(mutex_);
}

void Wakers::wake_all() {
  std::vector<std::shared_ptr<Entry>> called;
  {
    const LockGuard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      ++entry->running;
      called.push_back(entry);
    }
  }
  for (const auto& entry : called) entry->wake();
  const LockGuard lock(mutex_);
  for (const auto& entry : called) --entry->running;
  finished_.notify_all();
}

}  // namespace headrace
