#include "bypass/polled_connection.h"

#include <cstddef>
#include <span>
#include <utility>

namespace headrace::bypass {
namespace {

constexpr std::size_t kReadBytesPerTurn = 1 << 20;

}  // namespace

PolledConnection::PolledConnection(std::unique_ptr<TcpConnection> tcp, MemoryBudget::Share window, Server& server,
                                   SessionOptions options, Deadline now)
    : window_(std::move(window)), session_(server, std::move(options), now), tcp_(std::move(tcp)) {}

bool PolledConnection::exchange(Deadline now) {
  tcp_->acknowledge_events();
  if (const auto count = tcp_->take_acknowledged()) session_.consumed(count, now);
  const bool more = receive(now);
  const bool pushed = send();
  if (session_.broken()) {
    tcp_->abort();
    throw Gone();
  }
  if (session_.closing() && session_.output().empty()) throw Gone();
  // A peer that hung up, or reset the connection, takes no reply. What it sent before is handled, unless the session is
  // held.
  const bool takes_more = session_.yielded() || (session_.wants_input() && tcp_->has_input());
  if ((tcp_->ended() || tcp_->lost()) && !takes_more) throw Gone();
  return more || !pushed;
}

// True: there is more that the session would take.
bool PolledConnection::receive(Deadline now) {
  std::size_t taken = 0;
  while (tcp_->has_input() && session_.wants_input()) {
    if (taken >= kReadBytesPerTurn) return true;
    const std::size_t count = tcp_->read(session_.prepare());
    session_.commit(count, now);
    taken += count;
  }
  return false;
}

// False: the stack has no memory at the moment.
bool PolledConnection::send() {
  std::size_t sent = tcp_->in_flight();  // of the output
  for (const auto buffer : session_.output()) {
    if (sent >= buffer.size()) {
      sent -= buffer.size();
      continue;
    }
    const auto rest = buffer.subspan(std::exchange(sent, 0));
    if (tcp_->write(rest) < rest.size()) break;
  }
  return tcp_->push();
}

}  // namespace headrace::bypass
