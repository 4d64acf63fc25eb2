// Serves sessions over the user-space stack from one polling thread: no system call between a frame and its reply. As
// in a Reactor, a Scheduler decides which session goes on when.
//
// One thread does everything, so a request that takes long, such as one that creates a table, delays all others.
//
// Threading: one thread, as stack.h; the server may be used by other threads at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bypass/interface.h"
#include "bypass/polled_connection.h"
#include "bypass/tcp_listener.h"
#include "io/loop.h"
#include "io/scheduler.h"

namespace headrace::bypass {

class PollingLoop {
 public:
  PollingLoop(Server& server, LoopOptions options);  // the server outlives the loop
  ~PollingLoop();                                    // closes every connection
  PollingLoop(const PollingLoop&) = delete;
  PollingLoop& operator=(const PollingLoop&) = delete;

  // Serves on a port of the interface from the next turn on. `local`: only this machine reaches it. Throws kSystem (the
  // port is taken) and kRefused (it is not local, and there is no token).
  void listen(std::unique_ptr<Interface> interface, std::uint16_t port, bool local);
  // Handles what has arrived and what is due. False: there was nothing to do. `now` never decreases.
  bool turn(Deadline now);
  void watch();  // drops the connections of links whose other end is gone

  std::size_t connections() const { return connections_.size(); }
  bool has_output() const;  // of a session, that its peer has not acknowledged

 private:
  using Id = Scheduler::Id;
  struct Listening {
    std::unique_ptr<Interface> interface;
    std::unique_ptr<TcpListener> listener;  // destroyed first
  };
  struct Served {
    std::unique_ptr<PolledConnection> connection;
    bool ready = false;  // its id is in ready_
  };
  using Entry = std::pair<const Id, Served>;

  void admit(std::unique_ptr<TcpConnection> tcp, Deadline now);
  SessionOptions session_options(std::string peer) const;
  void serve(Id id, Deadline now, Scheduler::Action action);
  void enqueue(Entry& entry);
  void serve_ready(Deadline now);
  void drop(Id id);

  Server& server_;
  const LoopOptions options_;
  std::vector<Listening> interfaces_;
  std::unordered_map<Id, Served> connections_;
  Scheduler scheduler_;
  Id next_id_ = 1;
  std::vector<Id> ready_;  // have events, or more to do; has room for all, since the stack's callbacks add to it
  std::vector<Id> turn_;   // those of this turn
};

}  // namespace headrace::bypass
