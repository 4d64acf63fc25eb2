// One connection of a client: the handshake, then requests and their replies, in order.
//
// A request can be posted: its reply is received later, together with others, and only tells whether it failed.
//
// Errors of the connection name the address, except ConnectionLost, which Link completes.
//
// Threading: shut() and is_open() from any thread; the rest from one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/client_options.h"
#include "io/stream.h"
#include "wire/frame.h"

namespace headrace {

// The longest time that a server is asked to hold a request, so that a server that died silently is noticed soon after.
inline constexpr std::chrono::milliseconds kLongestWait{10'000};

class ClientConnection {
 public:
  ClientConnection(std::unique_ptr<Transport> transport, const ClientOptions& options, Interrupt interrupt);

  // The handshake. Throws kRefused if the server requires a token and none was given, or has none although one was
  // given, or where one side does not know it. Requests come after it.
  void shake_hands(std::chrono::milliseconds timeout);
  std::uint64_t instance() const { return instance_; }

  // Sends a request; `trailing` follows the payload from where it lies. Throws kRefused, and sends nothing, above the
  // limits.
  void send(MessageType type, std::string_view name, std::span<const std::byte> payload,
            std::span<const std::span<const std::byte>> trailing = {});
  // The header of the reply to the oldest request without one, which was of this type and asked the server to wait so
  // long. Throws what the server says went wrong. The body must be received next.
  FrameHeader receive(MessageType type, std::chrono::milliseconds wait = {});
  FrameHeader request(MessageType type, std::string_view name, std::span<const std::byte> payload,
                      std::span<const std::span<const std::byte>> trailing = {}, std::chrono::milliseconds wait = {}) {
    send(type, name, payload, trailing);
    return receive(type, wait);
  }

  // Sends a request and does not wait for its reply, unless kMostPosted others have none yet. Throws what the server
  // said went wrong with an earlier one, and then sends nothing.
  void post(MessageType type, std::string_view name, std::span<const std::byte> payload,
            std::span<const std::span<const std::byte>> trailing);
  void take_posted() { receive_posted(0); }  // receives the replies to all that was posted; errors are thrown later
  void settle();                             // and throws the first error among them

  bool has_input() { return stream_.has_input(); }  // of a reply, or the end of the connection
  void receive_body(std::span<const std::span<std::byte>> parts) { stream_.receive(parts); }
  std::vector<std::byte> receive_body(const FrameHeader& reply);
  template <typename T>
  T receive_number(const FrameHeader& reply) {
    T number = 0;
    if (reply.status != kOk || reply.length != sizeof(number)) throw_malformed("the reply is not one number");
    const std::span<std::byte> part = std::as_writable_bytes(std::span(&number, 1));
    stream_.receive(std::span(&part, 1));
    return number;
  }
  FileDescriptor take_descriptor() { return stream_.take_descriptor(); }

  Transport::Event wait(Waker& waker, std::chrono::milliseconds longest) { return stream_.wait(waker, longest); }
  void shut() { stream_.shut(); }
  bool is_open() const { return stream_.is_open(); }
  [[noreturn]] void throw_lost(const std::string& what) { stream_.throw_lost(what); }
  [[noreturn]] void throw_malformed(const std::string& what);  // and shuts

 private:
  static constexpr std::size_t kMostPosted = 64;

  FrameHeader receive_next(MessageType type, std::chrono::milliseconds wait);
  void receive_posted(std::size_t most_left);
  void throw_posted_error();
  void authenticate(const Nonce& server, const Nonce& client);
  [[noreturn]] void refuse(const std::string& what);  // and shuts

  const std::string address_;
  const std::optional<Token> token_;
  const Limits limits_;
  const std::chrono::milliseconds request_timeout_;
  Stream stream_;
  bool greeted_ = false;  // the handshake is done
  std::uint64_t instance_ = 0;
  std::uint64_t sent_ = 0;             // requests, whose numbers these are
  std::uint64_t answered_ = 0;         // of these
  std::deque<MessageType> posted_;     // that have no reply yet: the oldest requests without one
  std::optional<Error> posted_error_;  // the first that was not thrown yet
};

}  // namespace headrace
