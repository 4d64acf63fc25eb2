#include "io/reactor.h"

#include <sched.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/quiet_thread.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Reactor::Id kWakerId = 0;
constexpr std::size_t kMaxEvents = 64;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// After a request it stays awake so long for the next, whose sender may be waiting for it: see Stream::receive().
constexpr auto kAwake = std::chrono::microseconds(50);
constexpr auto kMemoryPause = std::chrono::milliseconds(10);

bool is_listener(Reactor::Id id) { return id % 2 == 1; }

FileDescriptor make_epoll() {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) throw Error(ErrorKind::kSystem, std::string("epoll: ") + std::strerror(errno));
  return epoll;
}

int milliseconds_until(Deadline deadline) {
  if (deadline == never()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
}

}  // namespace

Reactor::Reactor(std::atomic<std::uint64_t>& connections, std::size_t max_unproven, Hooks hooks)
    : connection_count_(connections),
      hooks_(std::move(hooks)),
      epoll_(make_epoll()),
      waker_(std::make_shared<Waker>()),
      scheduler_(max_unproven, [waker = waker_] { waker->poke(); }) {
  watch(EPOLL_CTL_ADD, waker_->descriptor(), EPOLLIN, kWakerId);
}

void Reactor::start() {
  const LockGuard lock(mutex_);
  begin();
}

void Reactor::begin() {
  if (shut_ || begun_) return;
  thread_ = start_quiet_thread([this] { run(); });
  begun_ = true;
}

void Reactor::stop() {
  const LockGuard one(stop_mutex_);
  stop_.store(true);
  waker_->poke();
  std::thread ending;
  {
    const LockGuard lock(mutex_);
    if (!begun_) shut_ = true;  // from here on none begins
    ending = std::move(thread_);
  }
  if (ending.joinable()) ending.join();
}

void Reactor::watch(int operation, int descriptor, std::uint32_t events, Id id) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll_.get(), operation, descriptor, &event) != 0) {
    throw Error(ErrorKind::kSystem, std::string("epoll_ctl: ") + std::strerror(errno));
  }
}

void Reactor::run() {
  if (hooks_.background) {
    run_in_background();
  } else {
    run_in_foreground();
  }
  while (!stop_.load()) {
    try {
      turn();
    } catch (const std::exception&) {
      // Out of memory for the moment: epoll reports unhandled events again, and the poke repeats what the waker
      // announced.
      waker_->poke();
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
  shut();
}

// Waits for events and serves the connections that they belong to.
void Reactor::turn() {
  std::array<epoll_event, kMaxEvents> events;
  const bool awake = Clock::now() < asleep_at_;
  const bool idle = !scheduler_.ready();
  const int wait = awake || !idle ? 0 : milliseconds_until(std::min(accept_again_, scheduler_.next_deadline()));
  const int count = ::epoll_wait(epoll_.get(), events.data(), kMaxEvents, wait);
  if (count == 0 && awake && idle) {
    ::sched_yield();
    return;
  }
  bool woken = false;
  for (int i = 0; i < count; ++i) {
    const Id id = events[i].data.u64;
    if (id == kWakerId) {
      waker_->acknowledge();
      woken = true;
    } else if (is_listener(id)) {
      on_listener(id);
    } else {
      serve(id, [happened = events[i].events](ServedConnection& connection) {
        // A peer that hung up takes no reply. What it sent before is handled, unless the session is held.
        const Session& session = connection.session();
        if ((happened & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0 && !session.wants_input() && !session.yielded()) {
          throw ServedConnection::Gone();
        }
        if ((happened & ~EPOLLOUT) != 0) connection.receive();
      });
    }
  }
  const auto now = Clock::now();
  if (count > 0 && !hooks_.background) asleep_at_ = now + kAwake;
  if (now >= accept_again_) resume_listeners();
  if (woken) take_inbox();
  scheduler_.turn(now, [this](Id id, Scheduler::Action action) {
    serve(id, [action](ServedConnection& connection) { action(connection.session(), Clock::now()); });
  });
}

void Reactor::watch_listener(Id id, int descriptor) {
  const LockGuard lock(mutex_);
  watch(EPOLL_CTL_ADD, descriptor, EPOLLIN, id);
  listeners_[id] = descriptor;
}

void Reactor::on_listener(Id id) {
  if (hooks_.accept(id)) return;
  const LockGuard lock(mutex_);
  paused_listeners_.push_back(id);
  watch_again(id, 0);
  accept_again_ = Clock::now() + kAcceptPause;
}

void Reactor::resume_listeners() {
  const LockGuard lock(mutex_);
  accept_again_ = never();
  for (const Id id : std::exchange(paused_listeners_, {})) watch_again(id, EPOLLIN);
}

void Reactor::watch_again(Id id, std::uint32_t events) {
  try {
    watch(EPOLL_CTL_MOD, listeners_.at(id), events, id);
  } catch (const Error&) {
    // The listener is closed, and the loop about to be.
  }
}

void Reactor::add(std::unique_ptr<ServedConnection> connection) noexcept {
  try {
    const LockGuard lock(mutex_);
    begin();
    if (!shut_) {
      inbox_.push_back(std::move(connection));
      own_count_.fetch_add(1);
    }
  } catch (const std::exception&) {
    // The connection was not taken, as after stop().
  }
  if (connection) connection_count_.fetch_sub(1);
  waker_->poke();
}

void Reactor::take_inbox() {
  std::vector<std::unique_ptr<ServedConnection>> arrived;
  {
    const LockGuard lock(mutex_);
    arrived.swap(inbox_);
  }
  own_count_.fetch_sub(arrived.size());  // adopt() adds each again
  for (auto& connection : arrived) adopt(std::move(connection));
}

void Reactor::adopt(std::unique_ptr<ServedConnection> connection) {
  const Id id = connection->id();
  try {
    watch(EPOLL_CTL_ADD, connection->descriptor(), EPOLLRDHUP | EPOLLIN, id);
    served_.emplace(id, Served{std::move(connection), EPOLLRDHUP | EPOLLIN});
    own_count_.fetch_add(1);
  } catch (const std::exception&) {
    // No memory, or no room in epoll: the peer sees its connection closed.
    connection_count_.fetch_sub(1);
    return;
  }
  try {
    if (const auto oldest = scheduler_.add(id, served_.at(id).connection->session(), Clock::now())) drop(*oldest);
  } catch (const std::exception&) {
    return drop(id);
  }
  serve(id, [](ServedConnection& each) { Scheduler::resume(each.session(), Clock::now()); });
}

// Forgets a connection without closing it.
std::unique_ptr<ServedConnection> Reactor::release(Id id) {
  const auto found = served_.find(id);
  auto connection = std::move(found->second.connection);
  scheduler_.remove(id);
  served_.erase(found);
  own_count_.fetch_sub(1);
  return connection;
}

// Closing the descriptor is not enough if a forked process has a copy: epoll would go on reporting it, and the peer see
// no end.
void Reactor::end(const ServedConnection& connection) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.descriptor(), nullptr);
  ::shutdown(connection.descriptor(), SHUT_RDWR);  // what is queued is still sent
}

void Reactor::drop(Id id) {
  end(*release(id));
  connection_count_.fetch_sub(1);
}

// Runs `action` on a connection, sends its output, and hands it over if another reactor serves it from then on.
template <typename Action>
void Reactor::serve(Id id, Action action) {
  const auto found = served_.find(id);
  if (found == served_.end()) return;
  auto& served = found->second;
  const Session& session = served.connection->session();
  Reactor* server = this;
  try {
    action(*served.connection);
    settle(served);
    server = &hooks_.reactor_of(session, *this);
    if (server != this) watch(EPOLL_CTL_DEL, served.connection->descriptor(), 0, id);
  } catch (const std::exception&) {
    return drop(id);
  }
  if (server != this) server->add(release(id));
}

// Sends what there is, and has epoll watch for what the session needs next.
void Reactor::settle(Served& served) {
  auto& session = served.connection->session();
  served.connection->send();
  scheduler_.note(served.connection->id());
  const bool sending = !session.output().empty();
  const std::uint32_t events = EPOLLRDHUP | (session.wants_input() ? EPOLLIN : 0u) | (sending ? EPOLLOUT : 0u);
  if (events != served.events) {
    watch(EPOLL_CTL_MOD, served.connection->descriptor(), events, served.connection->id());
    served.events = events;
  }
}

void Reactor::shut() {
  {
    const LockGuard lock(mutex_);
    shut_ = true;
  }
  take_inbox();
  for (const auto& [id, served] : served_) {
    try {
      served.connection->session().resume(Clock::now());
      served.connection->send();
    } catch (const std::exception&) {
      // It is closed below in any case.
    }
  }
  for (const auto& [id, served] : served_) {
    end(*served.connection);
    scheduler_.remove(id);
  }
  connection_count_.fetch_sub(served_.size());
  served_.clear();
}

}  // namespace headrace
