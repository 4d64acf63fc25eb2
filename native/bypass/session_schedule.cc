#include "bypass/session_schedule.h"

namespace headrace::bypass {

SessionSchedule::~SessionSchedule() {
  held_.clear();
  release_tables();
}

void SessionSchedule::add(Id id, const Session& session) {
  entries_.emplace(id, Entry{&session});
  note(id);
}

void SessionSchedule::remove(Id id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  if (found->second.held) std::erase(held_, id);
  if (found->second.yielded) std::erase(yielded_, id);
  entries_.erase(found);
  unproven_.erase(id);
}

void SessionSchedule::note(Id id) {
  auto& entry = entries_.at(id);
  const Session& session = *entry.session;
  if (session.proven()) {
    unproven_.erase(id);
  } else {
    unproven_.insert(id);
  }
  if (session.yielded() && !std::exchange(entry.yielded, true)) yielded_.push_back(id);
  if (!session.blocked()) return;
  if (!std::exchange(entry.held, true)) held_.push_back(id);
  resume_at_ = std::min(resume_at_, session.deadline());
  if (const auto table = session.blocked_on()) {
    watch(table);
  } else {
    woken_->store(true);  // it was dropped just now
  }
}

std::optional<SessionSchedule::Id> SessionSchedule::surplus() const {
  if (unproven_.size() <= max_unproven_) return std::nullopt;
  return *unproven_.begin();
}

std::shared_ptr<Table> SessionSchedule::table_of_insert(Id id) const {
  const Session& session = *entries_.at(id).session;
  return session.blocked() && session.inserts() ? session.blocked_on() : nullptr;
}

void SessionSchedule::watch(const std::shared_ptr<Table>& table) {
  for (const auto& watched : watched_) {
    if (watched.table.lock() == table) return;
  }
  const auto waker = table->add_waker([woken = woken_] { woken->store(true); });
  watched_.push_back({table, waker});
  woken_->store(true);  // the table may have changed before it knew of us
}

std::vector<SessionSchedule::Id> SessionSchedule::ids() const {
  std::vector<Id> ids;
  ids.reserve(entries_.size());
  for (const auto& [id, entry] : entries_) ids.push_back(id);
  return ids;
}

void SessionSchedule::release_tables() {
  const auto awaited = [this](const std::shared_ptr<Table>& table) {
    return std::ranges::any_of(held_, [&](Id id) {
      const Session& session = *entries_.at(id).session;
      return session.blocked() && session.blocked_on() == table;
    });
  };
  std::erase_if(watched_, [&](const WatchedTable& watched) {
    const auto table = watched.table.lock();
    if (table && awaited(table)) return false;
    if (table) table->remove_waker(watched.waker);
    return true;
  });
}

}  // namespace headrace::bypass
