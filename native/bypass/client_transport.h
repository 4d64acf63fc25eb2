// A connection over the user-space stack as a transport. What is sent is copied, so that the caller's memory is free
// again at once and a connection can be closed before everything has been acknowledged.
//
// Threading: as transport.h; functions that require the stack's lock are the stack's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bypass/client_stack.h"
#include "bypass/tcp_connection.h"

namespace headrace::bypass {

class ClientTransport : public Transport {
 public:
  ClientTransport(ClientStack& stack, ClientStack::Link& link) REQUIRES(stack_mutex);
  ~ClientTransport() override;
  ClientTransport(const ClientTransport&) = delete;
  ClientTransport& operator=(const ClientTransport&) = delete;

  // Connects, step by step: true at the end. Throws ConnectionLost.
  bool connected(std::uint16_t port) REQUIRES(stack_mutex);
  void lose() REQUIRES(stack_mutex);  // its link is gone

  Transfer send(std::span<iovec> parts) override;
  Transfer receive(std::span<iovec> parts) override;
  bool has_input() override;
  void await_reply(Clock::time_point now) override { since_ = now; }
  Event wait(Waker& waker, std::chrono::milliseconds longest) override;
  FileDescriptor take_descriptor() override { return {}; }
  void shut() override;

 private:
  template <typename Attempt>
  Transfer in_slice(Clock::time_point since, Attempt attempt);
  bool hung_up() const REQUIRES(stack_mutex);
  std::size_t copy(std::span<const iovec> parts) REQUIRES(stack_mutex);
  std::size_t read(std::span<const iovec> parts) REQUIRES(stack_mutex);

  ClientStack& stack_;
  ClientStack::Link* link_ GUARDED_BY(stack_mutex);  // null: it is gone
  std::unique_ptr<TcpConnection> tcp_ GUARDED_BY(stack_mutex);
  Clock::time_point since_ = {};  // when the present wait for a reply began
};

}  // namespace headrace::bypass
