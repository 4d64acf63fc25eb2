// What lies outside a client: connections, time and chance. Those of the system, unless a simulation has its own.
//
// Threading: every method may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/mutex.h"
#include "io/address.h"
#include "io/interrupt.h"
#include "io/transport.h"

namespace headrace {

class ClientNetwork {
 public:
  using Clock = Transport::Clock;

  virtual ~ClientNetwork() = default;

  virtual std::unique_ptr<Transport> open(const Address& address, std::chrono::milliseconds timeout,
                                          const Interrupt& interrupt);  // as open_transport()
  virtual Clock::time_point now();
  virtual bool wait_until(ConditionVariable& condition, Mutex& mutex, Clock::time_point deadline) REQUIRES(mutex);
  virtual std::uint64_t draw_number();  // as draw_entropy()
};

ClientNetwork& system_network();

}  // namespace headrace
