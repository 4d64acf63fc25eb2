#include "bypass/client_transport.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "bypass/pacing.h"

namespace headrace::bypass {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr milliseconds kLastBytes{200};  // that are not acknowledged when a connection is closed

void pause(nanoseconds nap) {
  if (nap.count() == 0) {
    ::sched_yield();
  } else {
    std::this_thread::sleep_for(nap);
  }
}

void pause(nanoseconds nap, const Waker& waker) {
  if (nap.count() == 0) {
    ::sched_yield();
    return;
  }
  pollfd wanted = {.fd = waker.descriptor(), .events = POLLIN, .revents = 0};
  const timespec longest = {.tv_sec = 0, .tv_nsec = static_cast<long>(nap.count())};
  ::ppoll(&wanted, 1, &longest, nullptr);
}

}  // namespace

ClientTransport::ClientTransport(ClientStack& stack, ClientStack::Link& link) : stack_(stack), link_(&link) {
  link.users.push_back(this);
}

ClientTransport::~ClientTransport() {
  shut();
  const LockGuard lock(stack_mutex);
  if (link_ == nullptr) return;
  std::erase(link_->users, this);
  link_->used = stack_.now_();
  if (link_->users.empty() && !link_->interface->connected()) stack_.remove(*link_);  // the next attempt opens another
}

bool ClientTransport::connected(std::uint16_t port) {
  if (link_ == nullptr) throw ConnectionLost("the server is gone");
  if (!tcp_) {
    if (link_->interface->connected()) tcp_ = TcpConnection::connect(*link_->interface, link_->server_ip, port);
    return false;
  }
  if (tcp_->lost()) throw ConnectionLost("the connection is refused");
  return tcp_->established();
}

void ClientTransport::lose() {
  tcp_.reset();
  link_ = nullptr;
}

bool ClientTransport::hung_up() const { return !tcp_ || tcp_->lost() || tcp_->ended(); }

std::size_t ClientTransport::copy(std::span<const iovec> parts) {
  std::size_t moved = 0;
  for (const auto& part : parts) {
    const auto count = tcp_->copy({static_cast<const std::byte*>(part.iov_base), part.iov_len});
    moved += count;
    if (count < part.iov_len) break;
  }
  tcp_->push();
  return moved;
}

std::size_t ClientTransport::read(std::span<const iovec> parts) {
  std::size_t moved = 0;
  for (const auto& part : parts) {
    if (!tcp_ || !tcp_->has_input()) break;
    moved += tcp_->read({static_cast<std::byte*>(part.iov_base), part.iov_len});
  }
  if (moved > 0) link_->interface->flush();  // the peer may learn that it may send more
  return moved;
}

// Repeats what may move bytes, for a slice at most.
template <typename Attempt>
Transport::Transfer ClientTransport::in_slice(Clock::time_point since, Attempt attempt) {
  const auto end = Clock::now() + kInterruptSlice;
  for (;;) {
    {
      const LockGuard lock(stack_mutex);
      if (const std::size_t count = attempt()) return {.outcome = Outcome::kMoved, .bytes = count};
      if (hung_up()) return {.outcome = Outcome::kHungUp};
    }
    const auto now = Clock::now();
    if (now >= end) return {.outcome = Outcome::kNothing};
    pause(nap_after(now - since));
  }
}

Transport::Transfer ClientTransport::send(std::span<iovec> parts) {
  return in_slice(Clock::now(), [&]() REQUIRES(stack_mutex) -> std::size_t {
    const std::size_t count = hung_up() ? 0 : copy(parts);
    if (link_ != nullptr) stack_.turn();
    return count;
  });
}

Transport::Transfer ClientTransport::receive(std::span<iovec> parts) {
  const auto moved = in_slice(since_, [&]() REQUIRES(stack_mutex) -> std::size_t {
    if (const std::size_t count = read(parts)) return count;
    if (link_ != nullptr) stack_.turn();
    return read(parts);
  });
  if (moved.outcome == Outcome::kMoved) since_ = Clock::now();
  return moved;
}

bool ClientTransport::has_input() {
  const LockGuard lock(stack_mutex);
  if (link_ != nullptr) stack_.turn();
  return (tcp_ && tcp_->has_input()) || hung_up();
}

Transport::Event ClientTransport::wait(Waker& waker, milliseconds longest) {
  const auto begin = Clock::now();
  for (;;) {
    if (has_input()) return Event::kInput;
    if (waker.poked()) {
      waker.acknowledge();
      return Event::kWoken;
    }
    const auto waited = Clock::now() - begin;
    if (longest.count() >= 0 && waited >= longest) return Event::kNothing;
    pause(nap_after(waited), waker);
  }
}

// What was sent is on its way when this returns: the process may end now.
void ClientTransport::shut() {
  const auto end = Clock::now() + kLastBytes;
  for (bool waits = true; waits; ::sched_yield()) {
    const LockGuard lock(stack_mutex);
    tcp_.reset();
    if (link_ != nullptr) stack_.turn();
    waits = link_ != nullptr && link_->interface->is_sending() && Clock::now() < end;
  }
}

}  // namespace headrace::bypass
