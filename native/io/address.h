// Where a server is reached: "tcp://HOST:PORT", "unix:PATH" (a socket file), "unix:@NAME" (abstract: nothing in the
// file system) or "dpdk:KIND,..." (without the kernel: bypass/port_address.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace {

struct Address {
  enum class Kind { kUnixPath, kUnixAbstract, kTcp, kUserSpace };

  Kind kind = Kind::kUnixPath;
  std::string name;        // path, name without the @ (empty: the server picks a free one), host (an IPv6 address
                           // without its brackets), or what follows dpdk:
  std::uint16_t port = 0;  // of TCP; 0: the server picks a free one

  // Throws kInvalid for another scheme, an empty path or host, a port that is none, or a name longer than the system's
  // socket addresses.
  static Address parse(std::string_view text);
  std::string text() const;
  bool is_unix() const { return kind == Kind::kUnixPath || kind == Kind::kUnixAbstract; }
};

}  // namespace headrace
