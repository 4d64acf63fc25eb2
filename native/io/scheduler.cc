#include "io/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace headrace {
namespace {

constexpr auto kSweepPause = std::chrono::seconds(1);

}  // namespace

Scheduler::Scheduler(std::size_t max_unproven, const std::function<void()>& wake)
    : max_unproven_(max_unproven), held_([woken = woken_, wake] {
        woken->store(true);
        if (wake) wake();
      }) {}

std::optional<Scheduler::Id> Scheduler::add(Id id, Session& session, Time now) {
  sessions_.try_emplace(id, Entry{&session});
  if (sweep_at_ == never()) sweep_at_ = now + kSweepPause;
  if (!session.proven()) unproven_.insert(id);
  if (unproven_.size() <= max_unproven_) return std::nullopt;
  return *unproven_.begin();
}

void Scheduler::note(Id id) {
  auto& entry = sessions_.at(id);
  const Session& session = *entry.session;
  if (session.proven()) unproven_.erase(id);
  if (session.blocked()) {
    held_.add(id, {session.blocked_on(), session.requests(), session.inserts(), session.deadline()});
  } else {
    held_.remove(id);
  }
  if (!session.yielded() || entry.yielded) return;
  yielded_.push_back(id);
  entry.yielded = true;
}

void Scheduler::remove(Id id) {
  held_.leave(id);
  unproven_.erase(id);
  std::erase(yielded_, id);
  sessions_.erase(id);
}

Scheduler::Time Scheduler::next_deadline() const { return std::min(held_.next_deadline(), sweep_at_); }

void Scheduler::turn(Time now, const Serve& serve) {
  const auto resume_one = [&serve](Id id) { serve(id, &resume); };
  if (woken_->exchange(false) || now >= held_.next_deadline()) {
    try {
      held_.resume_ready(now, resume_one);
    } catch (...) {  // out of memory for the moment
      woken_->store(true);
      throw;
    }
  }
  for (const Id id : std::exchange(yielded_, {})) {
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) continue;
    found->second.yielded = false;
    serve(id, &resume);
  }
  if (now >= sweep_at_) sweep(now, serve);
}

void Scheduler::sweep(Time now, const Serve& serve) {
  if (now - 2 * kSweepPause >= sweep_at_) {  // this thread was delayed: what peers sent meanwhile was not read
    for (const auto& [id, entry] : sessions_) entry.session->excuse(now - sweep_at_);
  } else {
    std::vector<Id> ids;
    for (const auto& [id, entry] : sessions_) ids.push_back(id);
    for (const Id id : ids) {
      serve(id, [](Session& session, Time at) { session.expire(at); });
    }
    held_.forget_idle_tables();
  }
  sweep_at_ = sessions_.empty() ? never() : now + kSweepPause;
}

}  // namespace headrace
