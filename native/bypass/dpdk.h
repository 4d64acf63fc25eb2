// DPDK's environment and its ports. A process has one environment, once.
//
// Threading: one thread, the one that polls the ports.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "bypass/port.h"
#include "bypass/port_address.h"

namespace headrace::bypass {

class Dpdk {
 public:
  // Which end of a memif or vhost connection a port is.
  enum class End : std::uint8_t { kServer, kClient };

  // Prepares for these ports. Threads that are started later run on the cores that the caller may use. Throws kSystem.
  explicit Dpdk(std::span<const PortAddress> addresses);
  ~Dpdk();  // after all its ports
  Dpdk(const Dpdk&) = delete;
  Dpdk& operator=(const Dpdk&) = delete;

  // Throws kSystem, naming the address and the reason that DPDK gives.
  std::unique_ptr<Port> open(const PortAddress& address, End end);

 private:
  unsigned next_index_ = 0;
};

}  // namespace headrace::bypass
