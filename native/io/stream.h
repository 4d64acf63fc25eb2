// Blocking transfers over a connected socket, which another thread may end and an interrupt may break off.
//
// Threading: shut() from any thread; the rest from one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "io/file_descriptor.h"

namespace headrace {

// Called about ten times a second while a call waits. What it throws ends the call.
using Interrupt = std::function<void()>;

class Stream {
 public:
  static constexpr std::size_t kMaxParts = 16;

  Stream(FileDescriptor socket, std::string address, Interrupt interrupt);

  // All bytes of the parts (at most kMaxParts), in order. Whatever these throw (kClosed, or the interrupt's own), the
  // stream is shut: a transfer that was broken off leaves no frame boundary to go on from.
  void send(std::span<const std::span<const std::byte>> parts);
  void receive(std::span<const std::span<std::byte>> parts);
  void receive(std::span<std::byte> bytes) { receive(std::span(&bytes, 1)); }

  void shut();
  bool is_open() const { return open_.load(); }
  [[noreturn]] void throw_closed();

 private:
  template <typename Transfer, typename Byte>
  void transfer(Transfer once, std::span<const std::span<Byte>> parts);

  const FileDescriptor socket_;
  const std::string address_;
  const Interrupt interrupt_;
  std::atomic<bool> open_ = true;
};

}  // namespace headrace
