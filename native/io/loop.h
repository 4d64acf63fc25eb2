// Serves sessions over sockets with epoll; nothing blocks.
//
// One thread accepts connections and serves most of them; those that sample are handed to a second one, so that no
// insert waits for a batch to be gathered. While a table is made or dropped for a connection, a shard made or loaded, a
// name claimed, or a huge chunk inserted, one of four others has that connection, so that no other connection waits for
// a disk (Session::place): the one with the fewest. Connections of shards are spread over as many threads as there are
// cores, all of one shard on the same thread (Session::lane), so that connections of tables never wait for gradients to
// be applied, and gradients of several shards are applied in parallel.
//
// The loop reads only what a session wants (Session::wants_input), so a peer that the limiter blocks, or that does not
// receive its replies, sees a full socket. Sessions that are held are tried again, in the order in which they began to
// wait, whenever one of their tables wakes, and at their deadline. Once a second every session is asked whether its
// peer is too slow or too silent.
//
// Threading: every method may be called from any thread. A connection belongs to one of the threads at a time, each of
// which begins with its first; `mutex_` guards the listeners. Wakers of tables hold the Waker alone, and may outlive
// the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/server.h"
#include "io/listener.h"
#include "io/reactor.h"
#include "wire/limits.h"
#include "wire/token.h"

namespace headrace {

struct LoopOptions {
  Limits limits = {};
  std::optional<Token> token = {};     // required over TCP; over a Unix socket, only the server proves it when asked
  std::size_t max_connections = 4096;  // at least 1; beyond, a new connection is answered with an error and closed
  std::size_t max_unproven = 128;      // connections that have not yet shown the token: beyond, the oldest is closed
};

class Loop {
 public:
  explicit Loop(Server& server, LoopOptions options = {});  // the server outlives the loop
  ~Loop();

  // Serves on an address from now on. Returns the address, with the name picked.
  // Throws kInvalid, kSystem, kRefused (TCP beyond loopback without a token), and kClosed after close().
  std::string listen(const std::string& address);
  std::uint64_t connections() const { return connection_count_.load(); }
  // Stops listening, answers what can be answered at once (held requests too, where their tables are closed), and
  // closes every connection.
  void close();

 private:
  using Id = Reactor::Id;

  bool accept(Id id);
  void admit(Accepted accepted, bool is_unix);
  Reactor::Hooks hooks(bool background);
  Reactor& place_of(const Session& session, Reactor& current);
  SessionOptions session_options(std::string peer, bool is_unix) const;

  Server& server_;
  const LoopOptions options_;
  std::atomic<std::uint64_t> connection_count_ = 0;
  Id next_connection_ = 2;  // the accepting thread's

  Mutex mutex_;
  std::map<Id, std::unique_ptr<Listener>> listeners_ GUARDED_BY(mutex_);
  Id next_listener_ GUARDED_BY(mutex_) = 1;
  bool closed_ GUARDED_BY(mutex_) = false;

  std::vector<std::unique_ptr<Reactor>> appliers_;  // of gradients
  Reactor samplers_;
  std::vector<std::unique_ptr<Reactor>> errands_;  // slow requests
  Reactor others_;                                 // which accepts too
};

}  // namespace headrace
