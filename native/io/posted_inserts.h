// Inserts whose answers a client does not wait for: chunks stay here until the server has stored them.
//
// One request at a time is under way, as if its answer were awaited, so chunks are stored in order and a request that
// is repeated stores nothing twice. Chunks that come meanwhile go into the next request, all those of one table
// together.
//
// Threading: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/client_connection.h"

namespace headrace {

// Appends a chunk's header to a payload, with the sender's numbers in it; the rest of the chunk, to follow it. Of a
// chunk that is too short for a header that is all of it: the server refuses it.
std::span<const std::byte> append_header(std::vector<std::byte>& payload, std::span<const std::byte> chunk,
                                         std::uint64_t writer, std::uint64_t sequence);

class PostedInserts {
 public:
  // `most_request_bytes`: of the chunks that go into one request, unless a single one is larger.
  PostedInserts(std::uint64_t writer, std::size_t most_request_bytes)
      : writer_(writer), most_request_bytes_(most_request_bytes) {}

  bool empty() const { return requests_.empty(); }
  // Many enough that an actor's steps go on while the server is busy for a few milliseconds, and so few that they are
  // recent when a limiter that holds them lets them in.
  bool full() const { return chunks_ >= kMostChunks || bytes_ >= kMostBytes; }
  void add(const std::string& table, std::span<const std::byte> chunk, std::uint64_t sequence);

  // Sends the oldest request, which there must be, or if it is under way takes its answer, where there is one. With
  // `wait` it sends and waits for the answer. True: the request is answered, and gone.
  bool advance(ClientConnection& connection, bool wait);
  void connection_is_new() { under_way_ = false; }  // the oldest request has to be sent again
  void throw_error();                               // the first that a request was answered with; once

 private:
  static constexpr std::size_t kMostChunks = 4;
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  struct Request {
    std::string table;
    std::vector<std::byte> payload = {};
    std::size_t chunks = 0;
  };
  Request& request_for(const std::string& table, std::size_t bytes);

  const std::uint64_t writer_;
  const std::size_t most_request_bytes_;
  std::deque<Request> requests_;  // oldest first
  bool under_way_ = false;        // the oldest
  std::size_t chunks_ = 0;        // of all requests
  std::size_t bytes_ = 0;
  std::optional<Error> error_;
};

}  // namespace headrace
