// One connection of the user-space stack and its session: bytes are moved between the two, and nothing blocks.
//
// Threading: one thread, as stack.h.
#pragma once

#include <exception>
#include <memory>

#include "bypass/tcp_connection.h"
#include "core/memory_budget.h"
#include "wire/session.h"

namespace headrace::bypass {

class PolledConnection {
 public:
  struct Gone : std::exception {};  // the connection has ended

  // `window`: the server's memory for what a peer may send before the session takes it.
  PolledConnection(std::unique_ptr<TcpConnection> tcp, MemoryBudget::Share window, Server& server,
                   SessionOptions options, Deadline now);

  Session& session() { return session_; }
  const Session& session() const { return session_; }
  TcpConnection& tcp() { return *tcp_; }

  // Moves bytes in both directions, as far as the session, the peer's window and the turn of other connections allow.
  // True: more can be done at once. Throws Gone: also where the session has come to its end.
  bool exchange(Deadline now);

 private:
  bool receive(Deadline now);
  bool send();

  MemoryBudget::Share window_;
  Session session_;
  std::unique_ptr<TcpConnection> tcp_;  // destroyed before the session, whose output it sends from where it lies
};

}  // namespace headrace::bypass
