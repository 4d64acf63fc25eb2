// What a Stream runs over: a connected socket, or a connection of a TCP stack in this process. The functions that open
// one are here, too.
//
// Threading: shut() from any thread; the rest from one thread at a time.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "io/address.h"
#include "io/file_descriptor.h"
#include "io/interrupt.h"
#include "io/waker.h"

namespace headrace {

// The connection is gone: closed by either side, broken, or silent for too long. Of kind kClosed, but no error that the
// server sent.
struct ConnectionLost : Error {
  explicit ConnectionLost(const std::string& message) : Error(ErrorKind::kClosed, message) {}
};

class Transport {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Outcome : std::uint8_t {
    kMoved,    // `bytes` of them, at least one
    kNothing,  // within about kInterruptSlice
    kHungUp,   // the connection was closed by the peer or by shut()
    kFailed,   // `error` is the system's number
  };
  struct Transfer {
    Outcome outcome;
    std::size_t bytes = 0;
    int error = 0;
  };
  enum class Event : std::uint8_t { kInput, kWoken, kNothing };

  virtual ~Transport() = default;

  // From the beginning of the parts, which are in order and not empty.
  virtual Transfer send(std::span<iovec> parts) = 0;
  virtual Transfer receive(std::span<iovec> parts) = 0;
  virtual bool has_input() = 0;  // something to receive, which includes the end of the connection
  // A reply is awaited from `now` on. It often comes soon, so the next receive() may stay awake for a while.
  virtual void await_reply(Clock::time_point now) = 0;
  // Waits until has_input(), or for `waker`, which it acknowledges; kNothing after `longest`. Negative: no limit.
  virtual Event wait(Waker& waker, std::chrono::milliseconds longest) = 0;
  // The last that came with received bytes, if any.
  virtual FileDescriptor take_descriptor() = 0;
  virtual void shut() = 0;  // ends what another thread waits for here
};

// Throws ConnectionLost if there is no answer, and otherwise as connect_to() and connect_user_space().
std::unique_ptr<Transport> open_transport(const Address& address, std::chrono::milliseconds timeout,
                                          const Interrupt& interrupt);

}  // namespace headrace
