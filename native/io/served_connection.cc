#include "io/served_connection.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "io/shared_memory.h"

namespace headrace {
namespace {

constexpr std::size_t kReadBytesPerTurn = 1 << 20;  // of untouched memory
constexpr std::size_t kSentBytesPerTurn = 4 << 20;

}  // namespace

ServedConnection::ServedConnection(Id id, FileDescriptor socket, Server& server, SessionOptions options)
    : id_(id), socket_(std::move(socket)), session_(server, std::move(options), std::chrono::steady_clock::now()) {}

void ServedConnection::receive() {
  std::size_t taken = 0;
  while (session_.wants_input() && taken < kReadBytesPerTurn) {
    auto space = session_.prepare();  // where a peer keeps sending, one call would fill all of it
    space = space.first(std::min(space.size(), kReadBytesPerTurn - taken));
    const auto count = ::recv(socket_.get(), space.data(), space.size(), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0 && !(count < 0 && errno == EINTR)) throw Gone();
    if (count < 0) continue;
    taken += static_cast<std::size_t>(count);
    session_.commit(static_cast<std::size_t>(count), std::chrono::steady_clock::now());
    if (static_cast<std::size_t>(count) < space.size()) return;  // the socket is empty: no need to ask again
  }
}

void ServedConnection::send() {
  for (std::size_t sent = 0;;) {
    if (session_.broken()) throw Gone();
    const auto buffers = session_.output();
    if (buffers.empty()) {
      if (session_.closing()) throw Gone();
      return;
    }
    if (sent >= kSentBytesPerTurn) return;
    std::array<iovec, SendQueue::kMaxBuffers> parts;
    std::transform(buffers.begin(), buffers.end(), parts.begin(), [](std::span<const std::byte> buffer) {
      return iovec{const_cast<std::byte*>(buffer.data()), buffer.size()};
    });
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = buffers.size();
    DescriptorSlot slot;
    if (session_.output_descriptor() >= 0) slot.send_with(message, session_.output_descriptor());
    const auto count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0 && errno != EINTR) throw Gone();
    if (count <= 0) continue;
    sent += static_cast<std::size_t>(count);
    session_.consumed(static_cast<std::size_t>(count), std::chrono::steady_clock::now());
  }
}

}  // namespace headrace
