#include "io/listener.h"

#include "io/tcp_socket.h"
#include "io/unix_socket.h"

namespace headrace {

std::vector<std::unique_ptr<Listener>> listen_on(const Address& address) {
  if (!address.is_unix()) return listen_tcp(address);
  std::vector<std::unique_ptr<Listener>> listeners;
  listeners.push_back(std::make_unique<UnixListener>(address));
  return listeners;
}

FileDescriptor connect_to(const Address& address, std::chrono::milliseconds timeout, const Interrupt& interrupt) {
  return address.is_unix() ? connect_unix(address) : connect_tcp(address, timeout, interrupt);
}

}  // namespace headrace
