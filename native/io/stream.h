// Blocking transfers over a connected socket, which another thread or an interrupt may end, and which a silent peer
// does not block forever.
//
// Threading: shut() and is_open() from any thread; the rest from one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "io/file_descriptor.h"
#include "io/interrupt.h"
#include "io/shared_memory.h"

namespace headrace {

// The connection is gone: closed by either side, broken, or silent for too long. Of kind kClosed, but no error that the
// server sent.
struct ConnectionLost : Error {
  explicit ConnectionLost(const std::string& message) : Error(ErrorKind::kClosed, message) {}
};

class Stream {
 public:
  static constexpr std::size_t kMaxParts = 16;
  static constexpr std::size_t kReadAheadBytes = 4096;

  Stream(FileDescriptor socket, Interrupt interrupt);

  // How long the peer may neither take nor send a byte.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  // All bytes of the parts (at most kMaxParts), in order. If these throw (ConnectionLost, or the interrupt's
  // own), the stream is shut: a transfer that was broken off leaves no frame boundary to go on from. If the peer has
  // hung up, send() returns normally; receive() returns what the peer sent last and then throws.
  void send(std::span<const std::span<const std::byte>> parts);
  // `wait`: how much longer the peer may be silent. What has arrived behind the parts is kept for the next call, so
  // that a short reply costs one system call.
  void receive(std::span<const std::span<std::byte>> parts, std::chrono::milliseconds wait = {});
  FileDescriptor take_descriptor() { return std::move(descriptor_); }  // the last that came with received bytes

  bool has_input() const { return ahead_begin_ < ahead_end_; }  // received already
  int descriptor() const { return socket_.get(); }
  void shut();
  bool is_open() const { return open_.load(); }
  [[noreturn]] void throw_lost(const std::string& what);  // and shuts

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t take_ahead(std::span<std::byte> part);
  void take_descriptor_from(const DescriptorSlot& slot, msghdr& message);
  void after_silence(Clock::time_point deadline);

  const FileDescriptor socket_;
  const Interrupt interrupt_;
  std::chrono::milliseconds timeout_{30'000};
  std::atomic<bool> open_ = true;
  FileDescriptor descriptor_;
  std::array<std::byte, kReadAheadBytes> ahead_;
  std::size_t ahead_begin_ = 0;
  std::size_t ahead_end_ = 0;
};

}  // namespace headrace
