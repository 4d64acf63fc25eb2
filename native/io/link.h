// A client's connection, and its replacement once it is lost.
//
// Threading: close(), instance() and reconnections() from any thread; exchange() from one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "core/table.h"
#include "io/address.h"
#include "io/client_connection.h"

namespace headrace {

class Link {
 public:
  // Called on a connection that is new, before anything else is asked on it.
  using Greet = std::function<void(ClientConnection&)>;

  // Connects: tries, with growing pauses, until a server answers. kSystem, naming the address, after connect_timeout;
  // kRefused as ClientConnection::shake_hands().
  Link(ClientOptions options, Greet greet);

  // Runs `call` on the connection; where that is lost, connects again and runs it again, for reconnect_timeout from the
  // first loss. Throws kClosed after that, and after close().
  template <typename Call>
  auto exchange(Call call) {
    Deadline give_up = never();
    for (int losses = 0;; ++losses) {
      try {
        if (losses > 1) back_off(losses - 1, give_up);  // reconnecting alone did not help
        return call(living(give_up));
      } catch (const ConnectionLost& lost) {
        if (!may_try_again(give_up)) throw_lost(lost.what());
      }
    }
  }

  // Runs `call` on the connection, if there is one that is open. Not while another call is under way.
  template <typename Call>
  void tell(Call call) {
    if (connection_ && connection_->is_open()) call(*connection_);
  }

  void close();  // ends a call that is under way
  std::uint64_t instance() const { return instance_.load(); }
  std::uint64_t reconnections() const { return connections_.load() - 1; }

 private:
  ClientConnection& living(Deadline& give_up);
  bool may_try_again(Deadline& give_up) const;
  void connect(Deadline deadline);
  void connect_once(Deadline deadline);
  bool try_to_connect(Deadline deadline, std::string& reason);
  void back_off(int failures, Deadline deadline);
  void pause(std::chrono::milliseconds longest, Deadline deadline);
  void check_open() const;  // throws kClosed after close(), and what the interrupt throws
  [[noreturn]] void throw_lost(const std::string& what) const;

  const ClientOptions options_;
  ClientNetwork& network_;
  const Address address_;
  const Greet greet_;
  std::atomic<bool> closed_ = false;
  std::atomic<std::uint64_t> instance_ = 0;
  std::atomic<std::uint64_t> connections_ = 0;    // that were made
  std::unique_ptr<ClientConnection> connection_;  // exchange()'s
  Mutex mutex_;
  ConditionVariable closing_;
  ClientConnection* closable_ GUARDED_BY(mutex_) = nullptr;  // the same connection, for close()
};

}  // namespace headrace
