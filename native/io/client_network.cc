#include "io/client_network.h"

#include "core/entropy.h"

namespace headrace {

std::unique_ptr<Transport> ClientNetwork::open(const Address& address, std::chrono::milliseconds timeout,
                                               const Interrupt& interrupt) {
  return open_transport(address, timeout, interrupt);
}

ClientNetwork::Clock::time_point ClientNetwork::now() { return Clock::now(); }

bool ClientNetwork::wait_until(ConditionVariable& condition, Mutex& mutex, Clock::time_point deadline) {
  return condition.wait_until(mutex, deadline);
}

std::uint64_t ClientNetwork::draw_number() { return draw_entropy(); }

ClientNetwork& system_network() {
  static ClientNetwork network;
  return network;
}

}  // namespace headrace
