#include "bypass/tcp_listener.h"

#include <exception>
#include <string>
#include <utility>

#include "core/error.h"

namespace headrace::bypass {
namespace {

constexpr u8_t kBacklog = 128;  // connections that are being established

[[noreturn]] void refuse(std::uint16_t port, const char* reason) {
  throw Error(ErrorKind::kSystem, "port " + std::to_string(port) + ": " + reason);
}

}  // namespace

TcpListener::TcpListener(Interface& interface, std::uint16_t port) {
  tcp_pcb* const pcb = tcp_new();
  if (pcb == nullptr) refuse(port, "the TCP stack has no memory for a listener");
  tcp_bind_netif(pcb, &interface.handle());
  const err_t bound = tcp_bind(pcb, netif_ip_addr4(&interface.handle()), port);
  pcb_ = bound == ERR_OK ? tcp_listen_with_backlog(pcb, kBacklog) : nullptr;
  if (pcb_ == nullptr) {
    tcp_abort(pcb);
    refuse(port, bound == ERR_USE ? "it is in use" : "the TCP stack has no memory for a listener");
  }
  tcp_arg(pcb_, this);
  tcp_accept(pcb_, &TcpListener::on_accepted);
}

TcpListener::~TcpListener() { tcp_close(pcb_); }

err_t TcpListener::on_accepted(void* self, tcp_pcb* pcb, err_t error) {
  if (pcb == nullptr || error != ERR_OK) return ERR_VAL;
  auto& accepted = static_cast<TcpListener*>(self)->accepted_;
  try {
    accepted.reserve(accepted.size() + 1);  // so that nothing throws once the connection is taken over
    accepted.push_back(std::make_unique<TcpConnection>(pcb));
  } catch (const std::exception&) {
    return ERR_MEM;  // the stack resets the connection
  }
  return ERR_OK;
}

std::vector<std::unique_ptr<TcpConnection>> TcpListener::take_accepted() { return std::exchange(accepted_, {}); }

}  // namespace headrace::bypass
