#include "io/stream.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace headrace {
namespace {

constexpr timeval kSlice = {.tv_sec = 0,
                            .tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(kInterruptSlice).count()};

// For a reply that comes this soon it is better to stay awake, because waking an idle core takes as long. Other threads
// get the core meanwhile.
constexpr auto kAwake = std::chrono::microseconds(50);

// Drops `count` bytes from the front of `parts`.
std::span<iovec> skip(std::span<iovec> parts, std::size_t count) {
  while (!parts.empty() && count >= parts.front().iov_len) {
    count -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (!parts.empty()) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + count;
    parts.front().iov_len -= count;
  }
  return parts;
}

bool would_block() { return errno == EAGAIN || errno == EINTR; }
bool hung_up() { return errno == EPIPE || errno == ECONNRESET; }

}  // namespace

Stream::Stream(FileDescriptor socket, Interrupt interrupt)
    : socket_(std::move(socket)), interrupt_(std::move(interrupt)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kSlice, sizeof(kSlice));
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSlice, sizeof(kSlice));
}

void Stream::shut() {
  open_.store(false);
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void Stream::throw_lost(const std::string& what) {
  shut();
  throw ConnectionLost(what);
}

void Stream::after_silence(Clock::time_point deadline) {
  try {
    if (interrupt_) interrupt_();
  } catch (...) {
    shut();
    throw;
  }
  if (!is_open()) throw_lost("the connection is closed");
  if (Clock::now() >= deadline) {
    throw_lost("no answer within " + std::to_string(timeout_.count()) + " ms; the connection is closed");
  }
}

void Stream::send(std::span<const std::span<const std::byte>> parts) {
  std::array<iovec, kMaxParts> storage;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    storage[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  auto left = skip(std::span(storage).first(parts.size()), 0);
  auto deadline = Clock::now() + timeout_;
  while (!left.empty()) {
    if (!is_open()) throw_lost("the connection is closed");
    msghdr message = {};
    message.msg_iov = left.data();
    message.msg_iovlen = left.size();
    const auto count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count > 0) {
      left = skip(left, static_cast<std::size_t>(count));
      if (!left.empty()) deadline = Clock::now() + timeout_;
    } else if (would_block()) {
      after_silence(deadline);
    } else if (hung_up()) {
      return;
    } else {
      throw_lost(std::strerror(errno));
    }
  }
}

std::size_t Stream::take_ahead(std::span<std::byte> part) {
  const std::size_t count = std::min(part.size(), ahead_end_ - ahead_begin_);
  std::copy_n(ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_begin_), count, part.begin());
  ahead_begin_ += count;
  return count;
}

void Stream::take_descriptor_from(const DescriptorSlot& slot, msghdr& message) {
  try {
    if (auto descriptor = slot.received(message)) descriptor_ = std::move(descriptor);
  } catch (const Error&) {
    shut();
    throw;
  }
}

void Stream::receive(std::span<const std::span<std::byte>> parts, std::chrono::milliseconds wait) {
  std::array<iovec, kMaxParts + 1> storage;  // one more for what comes behind
  std::size_t needed = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t count = take_ahead(parts[i]);
    storage[i] = {parts[i].data() + count, parts[i].size() - count};
    needed += parts[i].size() - count;
  }
  storage[parts.size()] = {ahead_.data(), ahead_.size()};
  auto left = std::span(storage).first(parts.size() + 1);
  const auto started = Clock::now();
  const auto asleep = started + kAwake;
  auto deadline = started + timeout_ + wait;
  bool awake = true;
  while (needed > 0) {  // then nothing is left in ahead_
    left = skip(left, 0);
    DescriptorSlot slot;
    msghdr message = {};
    message.msg_iov = left.data();
    message.msg_iovlen = left.size();
    slot.receive_with(message);
    const auto count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (awake ? MSG_DONTWAIT : 0));
    if (count < 0 && would_block() && awake) {
      awake = Clock::now() < asleep;
      ::sched_yield();
    } else if (count > 0) {
      take_descriptor_from(slot, message);
      const std::size_t taken = std::min(needed, static_cast<std::size_t>(count));
      needed -= taken;
      left = skip(left, taken);
      ahead_begin_ = 0;
      ahead_end_ = static_cast<std::size_t>(count) - taken;
      if (needed > 0) deadline = Clock::now() + timeout_;
    } else if (count < 0 && would_block()) {
      after_silence(deadline);
    } else {
      throw_lost(count == 0 || hung_up() ? "the connection is closed" : std::strerror(errno));
    }
  }
}

}  // namespace headrace
