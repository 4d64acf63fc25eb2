// The connections of a process to polling servers, over the user-space stack: one link to each server. Each thread that
// waits for something polls the links; a thread of the stack does while none waits, so that timers run and what has
// been sent is acknowledged.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bypass/interface.h"
#include "bypass/port_address.h"
#include "core/mutex.h"
#include "core/table.h"
#include "io/transport.h"

namespace headrace::bypass {

class ClientTransport;

inline Mutex stack_mutex;  // guards everything that uses lwIP or DPDK in a process with clients

// Where links come from: DPDK, or a test.
class ClientPorts {
 public:
  struct Link {
    std::shared_ptr<const void> claim;  // held as long as the port
    std::unique_ptr<Port> port;
    Subnet own;
    std::uint32_t server_ip;
  };

  virtual ~ClientPorts() = default;
  // Throws ConnectionLost: no server is there yet.
  virtual Link open(const PortAddress& address) = 0;
};

class ClientStack {
 public:
  using Now = std::function<Deadline()>;  // the stack's time, which never decreases

  explicit ClientStack(std::unique_ptr<ClientPorts> ports, Now now = std::chrono::steady_clock::now);
  ~ClientStack();  // all connections are gone
  ClientStack(const ClientStack&) = delete;
  ClientStack& operator=(const ClientStack&) = delete;

  // Throws ConnectionLost if there is no answer in time, and as ClientPorts.
  std::unique_ptr<Transport> connect(const PortAddress& address, std::chrono::milliseconds timeout,
                                     const Interrupt& interrupt);

 private:
  friend class ClientTransport;
  struct Link {
    std::string address;
    std::uint32_t own_ip;
    std::uint32_t server_ip;
    std::shared_ptr<const void> claim;
    std::unique_ptr<Interface> interface;  // destroyed before the claim
    std::vector<ClientTransport*> users;
    Deadline used = {};  // last, if there is none now
  };

  Link& link_to(const PortAddress& address) REQUIRES(stack_mutex);
  void turn() REQUIRES(stack_mutex);
  void watch(Deadline now) REQUIRES(stack_mutex);
  void remove(Link& link) REQUIRES(stack_mutex);
  void run();

  ConditionVariable changed_;
  const std::unique_ptr<ClientPorts> ports_ PT_GUARDED_BY(stack_mutex);
  const Now now_;
  std::vector<std::unique_ptr<Link>> links_ GUARDED_BY(stack_mutex);
  Deadline turned_ GUARDED_BY(stack_mutex) = {};
  Deadline watch_at_ GUARDED_BY(stack_mutex) = {};
  bool ending_ GUARDED_BY(stack_mutex) = false;
  std::thread thread_ GUARDED_BY(stack_mutex);
};

}  // namespace headrace::bypass
