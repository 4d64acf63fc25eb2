#include "io/listener.h"

#include "core/error.h"
#include "io/tcp_socket.h"
#include "io/unix_socket.h"

namespace headrace {

std::vector<std::unique_ptr<Listener>> listen_on(const Address& address) {
  if (address.kind == Address::Kind::kTcp) return listen_tcp(address);
  if (!address.is_unix()) {
    throw Error(ErrorKind::kInvalid, "address '" + address.text() + "': only `headrace serve` listens there");
  }
  std::vector<std::unique_ptr<Listener>> listeners;
  listeners.push_back(std::make_unique<UnixListener>(address));
  return listeners;
}

FileDescriptor connect_to(const Address& address, std::chrono::milliseconds timeout, const Interrupt& interrupt) {
  return address.is_unix() ? connect_unix(address) : connect_tcp(address, timeout, interrupt);
}

}  // namespace headrace
