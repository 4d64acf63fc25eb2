// A blocking connection to a server: one request at a time, and its reply.
//
// Threading: every method may be called from any thread; calls queue. close() ends a call that is under way. A call
// that is broken off (by close() or by the interrupt) closes the connection, since its reply may still come.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/signature.h"
#include "core/table.h"
#include "io/stream.h"
#include "wire/frame.h"

namespace headrace {

class Client {
 public:
  // Tries until the server is there; kSystem, naming the address, at the deadline.
  Client(const std::string& address, Deadline deadline, Interrupt interrupt = {}, Limits limits = {});

  // Errors of the server arrive as its own kinds; kClosed once the connection is gone.
  Signature signature(const std::string& table);
  std::uint64_t insert(const std::string& table, std::span<const std::byte> chunk);  // waits while the limiter holds
  // Receives straight into the arrays, all of which must be there. False at the deadline; no `wait`: none. kInvalid
  // where the batch's signature is not the table's.
  bool sample(const std::string& table, const Signature& signature, const BatchView& batch, double importance_exponent,
              std::optional<std::chrono::milliseconds> wait);
  std::uint64_t update_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                                  std::span<const float> priorities);
  std::uint64_t publish(const std::string& name, std::uint64_t version, std::span<const std::byte> blob);
  std::optional<std::pair<std::uint64_t, std::vector<std::byte>>> fetch(const std::string& name,
                                                                        std::uint64_t newer_than);
  void put(const std::string& mailbox, std::span<const std::byte> message);
  std::vector<std::vector<std::byte>> drain(const std::string& mailbox);
  std::string stats();  // JSON text
  void close() { stream_.shut(); }

 private:
  // One call's turn on the connection; the next in the queue has it when this is gone.
  class Turn {
   public:
    explicit Turn(Client& client);  // waits, and throws kClosed where the connection is closed
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Client& client_;
  };

  // These need the turn. request() returns the reply's header, and throws what the server says went wrong.
  FrameHeader request(MessageType type, std::string_view name, std::span<const std::byte> payload,
                      std::span<const std::span<const std::byte>> trailing = {});
  std::vector<std::byte> receive_body(const FrameHeader& reply);
  std::uint64_t receive_number(const FrameHeader& reply);
  Signature request_signature(const std::string& table);
  void check_signature(const std::string& table, const Signature& signature);
  [[noreturn]] void throw_corrupt(const std::string& what);

  const Limits limits_;
  const Interrupt interrupt_;
  std::mutex mutex_;  // guards busy_
  std::condition_variable free_;
  bool busy_ = false;  // someone has the turn, which guards what follows
  Stream stream_;      // but shut() needs no turn
  std::uint64_t requests_ = 0;
  std::map<std::string, Signature> signatures_;  // of tables sampled from; a table's never changes
};

}  // namespace headrace
