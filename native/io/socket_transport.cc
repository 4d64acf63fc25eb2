#include "io/socket_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "io/shared_memory.h"

namespace headrace {
namespace {

constexpr timeval kSlice = {.tv_sec = 0,
                            .tv_usec = std::chrono::duration_cast<std::chrono::microseconds>(kInterruptSlice).count()};

// For a reply that comes this soon it is better to stay awake, because waking an idle core takes as long. It does not
// yield the core meanwhile: in Linux 6.18 that gives up the rest of its time slice, which is milliseconds.
constexpr auto kAwake = std::chrono::microseconds(50);

bool would_block() { return errno == EAGAIN || errno == EINTR; }

Transport::Transfer failure() {
  using Outcome = Transport::Outcome;
  if (would_block()) return {.outcome = Outcome::kNothing};
  if (errno == EPIPE || errno == ECONNRESET) return {.outcome = Outcome::kHungUp};
  return {.outcome = Outcome::kFailed, .error = errno};
}

msghdr message_of(std::span<iovec> parts) {
  msghdr message = {};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return message;
}

}  // namespace

SocketTransport::SocketTransport(FileDescriptor socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kSlice, sizeof(kSlice));
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSlice, sizeof(kSlice));
}

void SocketTransport::shut() { ::shutdown(socket_.get(), SHUT_RDWR); }

Transport::Transfer SocketTransport::send(std::span<iovec> parts) {
  const auto message = message_of(parts);
  const auto count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (count <= 0) return failure();
  return {.outcome = Outcome::kMoved, .bytes = static_cast<std::size_t>(count)};
}

bool SocketTransport::has_input() {
  pollfd wanted = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) > 0;
}

void SocketTransport::await_reply(Clock::time_point now) {
  awake_ = true;
  asleep_ = now + kAwake;
}

Transport::Transfer SocketTransport::receive(std::span<iovec> parts) {
  for (;;) {
    DescriptorSlot slot;
    auto message = message_of(parts);
    slot.receive_with(message);
    const auto count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | (awake_ ? MSG_DONTWAIT : 0));
    if (count > 0) {
      if (auto descriptor = slot.received(message)) descriptor_ = std::move(descriptor);
      return {.outcome = Outcome::kMoved, .bytes = static_cast<std::size_t>(count)};
    }
    if (count == 0) return {.outcome = Outcome::kHungUp};
    if (!would_block() || !awake_) return failure();
    awake_ = Clock::now() < asleep_;
  }
}

Transport::Event SocketTransport::wait(Waker& waker, std::chrono::milliseconds longest) {
  std::array<pollfd, 2> wanted = {pollfd{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = waker.descriptor(), .events = POLLIN, .revents = 0}};
  const auto most = static_cast<int>(std::min<std::chrono::milliseconds::rep>(longest.count(), INT_MAX));
  const int count = ::poll(wanted.data(), wanted.size(), std::max(most, -1));
  if (wanted[1].revents != 0) waker.acknowledge();
  if (count == 0) return Event::kNothing;
  return count > 0 && wanted[0].revents != 0 ? Event::kInput : Event::kWoken;
}

}  // namespace headrace
