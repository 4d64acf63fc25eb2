// DPDK's environment and its ports. A process has one environment, once.
//
// Threading: one thread at a time, the one that polls the ports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>

#include "bypass/port.h"
#include "bypass/port_address.h"
#include "core/mutex.h"

namespace headrace::bypass {

// DPDK has a thread that connects and disconnects memif ports. It unmaps the memory of an end that is gone, which
// another thread may be reading at that moment. Each has this mutex while it uses a port.
inline Mutex event_mutex;

class Dpdk {
 public:
  // Which end of a memif or vhost connection a port is.
  enum class End : std::uint8_t { kServer, kClient };

  // Prepares for these ports, with all their links. Threads that are started later run on the cores that the caller may
  // use. What DPDK logs later goes to `log`. Throws kSystem.
  Dpdk(std::span<const PortAddress> addresses, std::FILE* log);
  ~Dpdk();  // after all its ports
  Dpdk(const Dpdk&) = delete;
  Dpdk& operator=(const Dpdk&) = delete;

  // Throws kSystem, naming the address and the reason that DPDK gives.
  std::unique_ptr<Port> open(const PortAddress& address, End end, unsigned link);

 private:
  class EventThread;

  std::FILE* const log_;
  EventThread* event_thread_;  // never deleted
  unsigned next_index_ = 0;
};

}  // namespace headrace::bypass
