// Accepts TCP connections on a port of an interface.
//
// Threading: one thread, as stack.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bypass/interface.h"
#include "bypass/tcp_connection.h"

namespace headrace::bypass {

class TcpListener {
 public:
  // The interface outlives it. Throws kSystem: there is no memory, or the interface's port is taken.
  TcpListener(Interface& interface, std::uint16_t port);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  bool has_accepted() const { return !accepted_.empty(); }
  std::vector<std::unique_ptr<TcpConnection>> take_accepted();

 private:
  static err_t on_accepted(void* self, tcp_pcb* pcb, err_t error);

  tcp_pcb* pcb_;
  std::vector<std::unique_ptr<TcpConnection>> accepted_;
};

}  // namespace headrace::bypass
