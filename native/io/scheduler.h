// Decides when which session of a thread goes on: those that a table holds, those that gave others their turn, and once
// a second all of them, to see which peers are too slow or too silent. It also bounds the sessions whose peers have not
// shown the token. It knows no sockets: a driver (an epoll loop, a polling loop over a user-space TCP stack, a test)
// moves the bytes.
//
// The driver calls add() for each new session; note() after every call into it that may have changed what it waits for
// (commit, consumed, resume, expire); remove() before it ends or is handed to another thread; and turn() whenever
// `wake` was called, ready() is true, or next_deadline() has come. turn() calls `serve` with what to do for a session:
// the driver does it, sends the session's output and calls note(), or remove().
//
// Whether consumed() means that the system has taken the output or that the peer has acknowledged it is the driver's
// choice; nothing here depends on it.
//
// Threading: one thread. `wake` is called from any, also after this object is gone; a polling loop, which calls turn()
// all the time, needs none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "io/held_sessions.h"
#include "wire/session.h"

namespace headrace {

class Scheduler {
 public:
  using Id = HeldSessions::Id;  // later sessions have larger ones
  using Time = Session::Time;
  using Action = void (*)(Session&, Time now);
  using Serve = std::function<void(Id, Action)>;

  Scheduler(std::size_t max_unproven, const std::function<void()>& wake);

  // The session outlives its place here. Returns the oldest of those that have not shown the token, where these are
  // more than allowed: the driver closes it. It then serves the new one with resume(), since one that comes from
  // another thread has something to do, or is held by a table that has changed on the way.
  std::optional<Id> add(Id id, Session& session, Time now);
  void note(Id id);
  void remove(Id id);
  std::size_t size() const { return sessions_.size(); }

  void turn(Time now, const Serve& serve);
  bool ready() const { return !yielded_.empty() || woken_->load(); }
  Time next_deadline() const;

  static void resume(Session& session, Time now) { session.resume(now); }

 private:
  struct Entry {
    Session* session;
    bool yielded = false;  // its id is in yielded_
  };

  void sweep(Time now, const Serve& serve);

  const std::size_t max_unproven_;
  const std::shared_ptr<std::atomic<bool>> woken_ = std::make_shared<std::atomic<bool>>(false);
  std::unordered_map<Id, Entry> sessions_;
  std::set<Id> unproven_;  // the oldest first
  HeldSessions held_;
  std::vector<Id> yielded_;
  Time sweep_at_ = never();
};

}  // namespace headrace
