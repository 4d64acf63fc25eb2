// Blocking transfers over a transport, which another thread or an interrupt may end, and which a silent peer does not
// block forever.
//
// Threading: shut() and is_open() from any thread; the rest from one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "io/client_network.h"
#include "io/file_descriptor.h"
#include "io/interrupt.h"
#include "io/silence.h"
#include "io/transport.h"

namespace headrace {

class Stream {
 public:
  static constexpr std::size_t kMaxParts = 16;
  static constexpr std::size_t kReadAheadBytes = 4096;

  Stream(std::unique_ptr<Transport> transport, ClientNetwork& network, Interrupt interrupt);

  // How long the peer may neither take nor send a byte.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  // All bytes of the parts (at most kMaxParts), in order. If these throw (ConnectionLost, or the interrupt's
  // own), the stream is shut: a transfer that was broken off leaves no frame boundary to go on from. If the peer has
  // hung up, send() returns normally; receive() returns what the peer sent last and then throws.
  void send(std::span<const std::span<const std::byte>> parts);
  // `wait`: how much longer the peer may be silent. What has arrived behind the parts is kept for the next call, so
  // that a short reply costs one system call.
  void receive(std::span<const std::span<std::byte>> parts, std::chrono::milliseconds wait = {});
  bool has_input() { return ahead_begin_ < ahead_end_ || transport_->has_input(); }  // receive() does not wait for it
  FileDescriptor take_descriptor() { return transport_->take_descriptor(); }  // the last that came with received bytes

  // Waits for bytes to receive or for `waker`; see Transport.
  Transport::Event wait(Waker& waker, std::chrono::milliseconds longest);
  void shut();
  bool is_open() const { return open_.load(); }
  [[noreturn]] void throw_lost(const std::string& what);  // and shuts

 private:
  using Clock = Transport::Clock;
  std::size_t take_ahead(std::span<std::byte> part);
  Transport::Transfer receive_some(std::span<iovec> parts);
  void after_silence(Silence& silence, std::chrono::milliseconds longest);

  const std::unique_ptr<Transport> transport_;
  ClientNetwork& network_;
  const Interrupt interrupt_;
  std::chrono::milliseconds timeout_{30'000};
  std::atomic<bool> open_ = true;
  std::array<std::byte, kReadAheadBytes> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

}  // namespace headrace
