// A network interface of the user-space stack: an own IPv4 address on a port.
//
// Threading: one thread, as stack.h.
#pragma once

#include <cstdint>
#include <memory>

#include "bypass/port.h"

extern "C" {
#include <lwip/netif.h>
}

namespace headrace::bypass {

struct Subnet {
  std::uint32_t ip = 0;  // of the interface, most significant byte first as written: 10.0.0.1 is 0x0a000001
  std::uint8_t prefix_bits = 24;
};

class Interface {
 public:
  // Announces the address to its neighbors. `mtu`: bytes of an IP packet. Throws kSystem: there is no memory.
  Interface(std::unique_ptr<Port> port, Subnet subnet, std::uint16_t mtu);
  ~Interface();
  Interface(const Interface&) = delete;
  Interface& operator=(const Interface&) = delete;

  bool poll();  // hands frames that have arrived to the stack; false: there were none
  void flush() { port_->flush(); }
  bool connected() { return port_->connected(); }
  // Resets all connections if the other end was there and is gone, which it returns.
  bool watch();
  bool is_sending() const;  // something that the other end has not acknowledged, on a connection that is closed here
  netif& handle() { return netif_; }

 private:
  const std::unique_ptr<Port> port_;
  const std::uint16_t mtu_;
  netif netif_ = {};
  bool was_connected_ = false;

  static err_t initialize(netif* handle);
  static err_t send(netif* handle, pbuf* frame);
};

}  // namespace headrace::bypass
