// Serves sessions over sockets: one thread, epoll, nothing blocks.
//
// The loop reads only what a session wants (Session::wants_input), so a peer that is held by the limiter, or that does
// not take its replies, feels it as a full socket. Sessions that are held are tried again, in the order in which
// they began to wait, whenever one of their tables wakes, and at their deadline.
//
// Threading: every method may be called from any thread. Connections belong to the loop's thread; `mutex_` guards
// listeners_ and the thread itself. Wakers of tables hold the Waker alone, and may outlive the loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/server.h"
#include "io/file_descriptor.h"
#include "io/unix_socket.h"
#include "io/waker.h"
#include "wire/session.h"

namespace headrace {

class Loop {
 public:
  explicit Loop(Server& server, Limits limits = {});  // the server outlives the loop
  ~Loop();

  // Serves on an address from now on; the thread starts with the first. Returns the address, with the name picked.
  // Throws kInvalid, kSystem, and kClosed after close().
  std::string listen(const std::string& address);
  std::uint64_t connections() const { return connection_count_.load(); }
  // Stops listening, answers what can be answered at once (held requests too, where their tables are closed), and
  // closes every connection.
  void close();

 private:
  struct Connection;
  using Id = std::uint64_t;

  void run();
  Deadline next_deadline() const;
  void accept_from(Id id);
  void watch_listener(Id id, bool accepting);
  void add_connection(FileDescriptor socket);
  void drop(Id id);
  void on_socket(Connection& connection, std::uint32_t events);
  void receive(Connection& connection);
  void send(Connection& connection);
  void settle(Connection& connection);
  void note_blocked(Connection& connection);
  void resume_blocked();
  void watch_table(const std::shared_ptr<Table>& table);
  void shut();

  Server& server_;
  const Limits limits_;
  FileDescriptor epoll_;
  const std::shared_ptr<Waker> waker_;
  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> connection_count_ = 0;

  std::mutex mutex_;
  std::map<Id, std::unique_ptr<UnixListener>> listeners_;
  Id next_listener_ = 1;  // odd; connections are even; 0 is the waker
  std::thread thread_;
  bool closed_ = false;

  std::unordered_map<Id, std::unique_ptr<Connection>> connections_;
  Id next_connection_ = 2;
  std::vector<Id> blocked_;           // in the order in which they began to wait
  std::vector<Id> paused_listeners_;  // the process has no descriptors left: asked again at accept_again_
  Deadline accept_again_ = never();
  struct Watched {
    std::shared_ptr<Table> table;
    std::uint64_t waker;
  };
  std::vector<Watched> watched_;
};

}  // namespace headrace
