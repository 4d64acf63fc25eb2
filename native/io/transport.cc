#include "io/transport.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "io/listener.h"
#include "io/socket_transport.h"
#include "io/user_space.h"

namespace headrace {

std::unique_ptr<Transport> open_transport(const Address& address, std::chrono::milliseconds timeout,
                                          const Interrupt& interrupt) {
  if (address.kind == Address::Kind::kUserSpace) return connect_user_space(address, timeout, interrupt);
  auto socket = connect_to(address, timeout, interrupt);
  if (!socket) throw ConnectionLost(std::strerror(errno));
  return std::make_unique<SocketTransport>(std::move(socket));
}

}  // namespace headrace
