#include "io/stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

constexpr timeval kSlice = {.tv_sec = 0, .tv_usec = 100'000};  // between two calls of the interrupt

// Drops `count` bytes from the front of `parts`.
std::span<iovec> advance(std::span<iovec> parts, std::size_t count) {
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

}  // namespace

Stream::Stream(FileDescriptor socket, std::string address, Interrupt interrupt)
    : socket_(std::move(socket)), address_(std::move(address)), interrupt_(std::move(interrupt)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) & ~O_NONBLOCK);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &kSlice, sizeof(kSlice));
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &kSlice, sizeof(kSlice));
}

void Stream::shut() {
  open_.store(false);
  ::shutdown(socket_.get(), SHUT_RDWR);
}

void Stream::throw_closed() { throw Error(ErrorKind::kClosed, "address '" + address_ + "': the connection is closed"); }

template <typename Transfer, typename Byte>
void Stream::transfer(Transfer once, std::span<const std::span<Byte>> parts) {
  std::array<iovec, kMaxParts> storage;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    storage[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  auto left = advance(std::span(storage).first(parts.size()), 0);
  try {
    while (!left.empty()) {
      if (!is_open()) throw_closed();
      msghdr message = {};
      message.msg_iov = left.data();
      message.msg_iovlen = left.size();
      const auto count = once(message);
      if (count > 0) {
        left = advance(left, static_cast<std::size_t>(count));
      } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (interrupt_) interrupt_();
      } else {
        throw_closed();
      }
    }
  } catch (...) {
    shut();
    throw;
  }
}

void Stream::send(std::span<const std::span<const std::byte>> parts) {
  transfer([this](msghdr& message) { return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL); }, parts);
}

void Stream::receive(std::span<const std::span<std::byte>> parts) {
  transfer([this](msghdr& message) { return ::recvmsg(socket_.get(), &message, 0); }, parts);
}

}  // namespace headrace
