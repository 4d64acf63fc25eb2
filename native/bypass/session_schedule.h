// Which sessions of a thread go on, and when: those that a table holds, those that gave way to others, those whose peer
// is too slow, too silent or too long unproven. It calls no session and does no I/O: its driver does, and notes every
// session again after each call.
//
// Threading: one thread; tables wake it from any thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/server.h"
#include "wire/session.h"

namespace headrace::bypass {

class SessionSchedule {
 public:
  using Id = std::uint64_t;  // rises with every session

  explicit SessionSchedule(std::size_t max_unproven) : max_unproven_(max_unproven) {}
  ~SessionSchedule();
  SessionSchedule(const SessionSchedule&) = delete;
  SessionSchedule& operator=(const SessionSchedule&) = delete;

  void add(Id id, const Session& session);  // which stays where it is until remove()
  void remove(Id id);
  void note(Id id);  // after each call that may change what the session waits for

  // The oldest of the sessions that have not shown the token, where there are more than `max_unproven`.
  std::optional<Id> surplus() const;
  bool woken() const { return woken_->load(std::memory_order_relaxed); }
  bool has_yielded() const { return !yielded_.empty(); }

  // Calls `resume(id)` for each session that may go on now, in the order in which they began to wait. `resume` must
  // note or remove the session. Once a table holds an insert, it holds the later ones too: each of these is tried when
  // the one before it has gone.
  template <typename Resume>
  void run(Deadline now, Resume resume) {
    if (woken_->load(std::memory_order_relaxed) || now >= resume_at_) run_held(now, resume);
    for (const Id id : std::exchange(yielded_, {})) {
      if (const auto found = entries_.find(id); found != entries_.end()) {
        found->second.yielded = false;
        resume(id);
      }
    }
  }

  std::vector<Id> ids() const;
  void release_tables();  // those that no session waits for any more

 private:
  struct Entry {
    const Session* session;
    bool held = false;     // its id is in held_
    bool yielded = false;  // its id is in yielded_
  };
  struct WatchedTable {
    std::weak_ptr<Table> table;  // one that is dropped goes
    std::uint64_t waker;
  };

  template <typename Resume>
  void run_held(Deadline now, Resume& resume);
  std::shared_ptr<Table> table_of_insert(Id id) const;  // null where the session holds no insert, or is gone
  void watch(const std::shared_ptr<Table>& table);

  const std::size_t max_unproven_;
  const std::shared_ptr<std::atomic<bool>> woken_ = std::make_shared<std::atomic<bool>>(false);
  std::unordered_map<Id, Entry> entries_;
  std::set<Id> unproven_;
  std::vector<Id> held_;          // in the order in which they began to wait
  Deadline resume_at_ = never();  // not after the first deadline of those
  std::vector<Id> yielded_;
  std::vector<WatchedTable> watched_;
};

template <typename Resume>
void SessionSchedule::run_held(Deadline now, Resume& resume) {
  woken_->store(false);
  resume_at_ = never();
  std::vector<std::shared_ptr<Table>> full;
  for (const Id id : std::exchange(held_, {})) {
    const auto found = entries_.find(id);
    if (found == entries_.end()) continue;
    const auto table = table_of_insert(id);
    if (table && now < found->second.session->deadline() && std::ranges::find(full, table) != full.end()) {
      held_.push_back(id);
      resume_at_ = std::min(resume_at_, found->second.session->deadline());
      continue;
    }
    found->second.held = false;
    resume(id);
    const auto after = entries_.find(id);
    if (table && after != entries_.end() && after->second.held) full.push_back(table);
  }
}

}  // namespace headrace::bypass
