// What the tests of loop, client and stream share: a server behind a loop, clients of it, polling with a deadline.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "io/client.h"
#include "io/loop.h"
#include "wire/batch_sections.h"
#include "wire_fixtures.h"

namespace headrace::testing {

using std::chrono::milliseconds;

inline Deadline in(int ms) { return std::chrono::steady_clock::now() + milliseconds(ms); }

// Short polling: true as soon as `condition` holds, false after a minute.
bool eventually(auto condition) {
  for (const auto deadline = in(60'000); std::chrono::steady_clock::now() < deadline;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

// Of the Error that a call throws; the message in `what`, if given.
std::optional<ErrorKind> kind_of(auto call, std::string* what = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (what != nullptr) *what = error.what();
    return error.kind();
  }
  return std::nullopt;
}

inline Token token_of(std::string_view secret) { return Token(as_bytes(secret)); }

inline ClientOptions to(const std::string& address, int reconnect_ms = 0) {
  return {.address = address, .connect_timeout = milliseconds(5000), .reconnect_timeout = milliseconds(reconnect_ms)};
}

// A server with one table, reached at `address`.
struct Served {
  explicit Served(TableOptions options = small_table(), LoopOptions loop_options = {},
                  const std::string& where = "unix:@")
      : loop(server, std::move(loop_options)) {
    table = server.add_table("replay", std::move(options));
    address = loop.listen(where);
  }
  ~Served() { close(); }
  void close() {
    server.close();
    loop.close();
  }

  Server server;
  std::shared_ptr<Table> table;
  Loop loop;
  std::string address;
};

struct Batch {
  explicit Batch(std::uint32_t size)
      : block(block_bytes(small_signature(), size)), view(lay_out(small_signature(), size, block.data())) {}
  Bytes block;
  BatchView view;
};

inline bool sample(Client& client, Batch& batch, std::optional<milliseconds> wait) {
  return client.sample("replay", small_signature(), batch.view, 0.4, wait);
}

// Every section of two batches, byte by byte.
inline bool same(const BatchView& left, const BatchView& right) {
  const auto lefts = sections_of(small_signature(), left);
  const auto rights = sections_of(small_signature(), right);
  return left.size == right.size && std::ranges::equal(lefts, rights, [](const auto& one, const auto& other) {
           return std::ranges::equal(one, other);
         });
}

inline bool exists(const std::string& path) {
  struct stat file;
  return ::lstat(path.c_str(), &file) == 0;
}

}  // namespace headrace::testing
