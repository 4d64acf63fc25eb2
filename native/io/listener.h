// A listening socket of any family, and functions that listen and connect.
//
// Threading: accept() from one thread; the rest may be read from any.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "io/address.h"
#include "io/file_descriptor.h"
#include "io/interrupt.h"

namespace headrace {

struct Accepted {
  FileDescriptor socket;  // non-blocking
  std::string peer;       // "tcp 10.0.0.2:53142", "unix pid 4711"
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual int descriptor() const = 0;
  virtual const Address& address() const = 0;  // with the name or port that was picked
  // Whether only this machine reaches it: a Unix socket, or TCP on a loopback address.
  virtual bool local() const = 0;
  // Empty socket where none waits or the peer is refused. errno says which: EAGAIN, EACCES, or what accept() set.
  virtual Accepted accept() = 0;
};

// kSystem: it can't be had. Binds and listens; of TCP, one listener for every address of this machine that the host's
// name stands for, all on one port.
std::vector<std::unique_ptr<Listener>> listen_on(const Address& address);

// Connects to a socket of the kernel, or returns empty with errno if there is no answer (refused, unreachable, timed
// out, no socket file). Other errors throw kSystem (an unknown host, say), a Unix socket of another user's server
// kRefused. Non-blocking.
FileDescriptor connect_to(const Address& address, std::chrono::milliseconds timeout, const Interrupt& interrupt = {});

}  // namespace headrace
