// How a client reaches its server, and how long it tries.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "io/client_network.h"
#include "io/interrupt.h"
#include "wire/limits.h"
#include "wire/token.h"

namespace headrace {

struct ClientOptions {
  std::string address;
  std::optional<Token> token = {};  // for a server that requires one
  std::chrono::milliseconds connect_timeout{10'000};
  // From a request, or from the end of the wait that it asked for, to the next byte of its reply.
  std::chrono::milliseconds request_timeout{30'000};
  std::chrono::milliseconds reconnect_timeout{0};  // 0: a lost connection is the end
  Interrupt interrupt = {};
  Limits limits = {};
  ClientNetwork* network = &system_network();  // outlives the client
};

}  // namespace headrace
