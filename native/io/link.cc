#include "io/link.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/random.h"

namespace headrace {
namespace {

using Clock = ClientNetwork::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{10};
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kLongestAttempt{5000};  // a peer that vanished may be back before its old connection times out

milliseconds until(Deadline deadline, Clock::time_point now, milliseconds longest) {
  if (deadline - now >= longest) return longest;
  return std::max(std::chrono::ceil<milliseconds>(deadline - now), milliseconds(1));
}

}  // namespace

Link::Link(ClientOptions options, Greet greet)
    : options_(std::move(options)),
      network_(*options_.network),
      address_(Address::parse(options_.address)),
      greet_(std::move(greet)) {
  connect(network_.now() + options_.connect_timeout);
}

void Link::throw_lost(const std::string& what) const {
  throw ConnectionLost("address '" + options_.address + "': " + what);
}

void Link::check_open() const {
  if (closed_.load()) throw ConnectionLost("the connection is closed");
  if (options_.interrupt) options_.interrupt();
}

bool Link::may_try_again(Deadline& give_up) const {
  if (closed_.load() || options_.reconnect_timeout.count() == 0) return false;
  if (give_up == never()) give_up = network_.now() + options_.reconnect_timeout;
  return network_.now() < give_up;
}

ClientConnection& Link::living(Deadline& give_up) {
  if (connection_ && connection_->is_open()) return *connection_;
  if (!may_try_again(give_up)) throw ConnectionLost("the connection is closed");
  connect(give_up);
  return *connection_;
}

void Link::connect(Deadline deadline) {
  std::string reason;
  for (auto longest = kFirstPause; !try_to_connect(deadline, reason); longest = std::min(2 * longest, kLongestPause)) {
    if (network_.now() >= deadline) {
      if (connections_.load() > 0) {  // then exchange() adds the address
        throw ConnectionLost("the connection is lost, and no server answers (" + reason + ")");
      }
      throw Error(ErrorKind::kSystem, "address '" + options_.address + "': no server answers (" + reason + ")");
    }
    pause(longest, deadline);
  }
}

// False, with the reason, if a later attempt may succeed.
bool Link::try_to_connect(Deadline deadline, std::string& reason) {
  try {
    connect_once(deadline);
    return true;
  } catch (const ConnectionLost& error) {
    if (closed_.load()) throw;
    reason = error.what();
  } catch (const Error& error) {
    // A server that has just restarted may lack resources, and so may a name server.
    if (error.kind() != ErrorKind::kSystem || connections_.load() == 0) throw;
    reason = error.what();
  }
  return false;
}

void Link::connect_once(Deadline deadline) {
  const Interrupt interrupt = [this] { check_open(); };
  check_open();
  auto transport = network_.open(address_, until(deadline, network_.now(), kLongestAttempt), interrupt);
  auto connection = std::make_unique<ClientConnection>(std::move(transport), options_, interrupt);
  {
    const LockGuard lock(mutex_);
    closable_ = connection.get();
  }
  connection_ = std::move(connection);
  try {
    check_open();  // close() may have come before the pointer
    connection_->shake_hands(until(deadline, network_.now(), options_.request_timeout));
    instance_.store(connection_->instance());
    greet_(*connection_);
  } catch (...) {
    connection_->shut();
    throw;
  }
  connections_.fetch_add(1);
}

void Link::back_off(int failures, Deadline deadline) {
  pause(std::min(kFirstPause * (1 << std::min(failures - 1, 10)), kLongestPause), deadline);
}

// A random part of `longest`, so that the clients of a lost server do not all return at once.
void Link::pause(milliseconds longest, Deadline deadline) {
  const double part = 0.5 + 0.5 * Random(network_.draw_number()).uniform();
  const auto wanted = std::chrono::duration_cast<Clock::duration>(part * longest);
  const auto end = std::min(network_.now() + wanted, deadline);
  while (network_.now() < end) {
    check_open();
    const auto slice = std::min(end, network_.now() + kInterruptSlice);
    const LockGuard lock(mutex_);
    while (!closed_.load() && network_.wait_until(closing_, mutex_, slice)) continue;
  }
}

void Link::close() {
  const LockGuard lock(mutex_);
  closed_.store(true);
  if (closable_ != nullptr) closable_->shut();
  closing_.notify_all();
}

}  // namespace headrace
