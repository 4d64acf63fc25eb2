// The command line of headrace-bypass, which `headrace serve` starts with every setting resolved.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bypass/pacing.h"
#include "bypass/port_address.h"
#include "core/server.h"
#include "wire/token.h"

namespace headrace::bypass {

struct Command {
  std::vector<PortAddress> ports;        // --listen dpdk:..., at least one
  std::vector<std::string> sockets;      // --listen tcp://... and unix:...
  ServerOptions server;                  // --data DIR, --memory BYTES, --shard-save-period SECONDS
  std::size_t max_connections = 4096;    // --max-connections NUMBER
  std::optional<Token> token;            // --token-file FILE, without surrounding white space
  Polling polling = Polling::kAdaptive;  // --poll always or adaptive

  // The words after the program's name. Throws kInvalid, naming the option, the value and what is required.
  static Command parse(const std::vector<std::string>& words);
};

}  // namespace headrace::bypass
