// The TCP stack in this process that bypasses the kernel, for addresses that begin with dpdk:. It is an optional
// library, because it needs DPDK; `make bypass` builds it. The first such address loads it, and it stays.
//
// Threading: any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/error.h"
#include "io/address.h"
#include "io/interrupt.h"
#include "io/transport.h"

namespace headrace {

// What the library provides (bypass/client_library.cc). Its own exceptions do not leave it.
class UserSpaceTcp {
 public:
  struct Answer {
    std::unique_ptr<Transport> transport;  // or else why there is none:
    std::optional<ErrorKind> error;        // nullopt: no server answers yet
    std::string message;
  };

  virtual Answer connect(const std::string& address, std::chrono::milliseconds timeout, const Interrupt& interrupt) = 0;

 protected:
  ~UserSpaceTcp() = default;
};

// The library's function that returns its only object. The name changes with this interface and Transport's, so that a
// library of another build is refused.
inline constexpr const char* kUserSpaceEntry = "headrace_user_space_tcp_1";
using UserSpaceEntry = UserSpaceTcp* (*)();

void set_user_space_library(std::string path);  // before the first connection

// Throws ConnectionLost (no answer), kInvalid (the address, or no library) and kSystem (DPDK does not start, or the
// server has no free link).
std::unique_ptr<Transport> connect_user_space(const Address& address, std::chrono::milliseconds timeout,
                                              const Interrupt& interrupt);

}  // namespace headrace
