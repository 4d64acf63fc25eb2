#include "io/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

namespace headrace {
namespace {

constexpr std::uint64_t kWakerId = 0;
constexpr std::size_t kMaxEvents = 64;
constexpr std::size_t kReadBytesPerTurn = 4 << 20;  // of one connection, before others have theirs
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

bool is_listener(std::uint64_t id) { return id % 2 == 1; }

void watch(const FileDescriptor& epoll, int operation, int descriptor, std::uint32_t events, std::uint64_t id) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  if (::epoll_ctl(epoll.get(), operation, descriptor, &event) != 0) {
    throw Error(ErrorKind::kSystem, std::string("epoll_ctl: ") + std::strerror(errno));
  }
}

// Thrown where a connection has come to its end.
struct Gone : std::exception {};

int milliseconds_until(Deadline deadline) {
  if (deadline == never()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
}

// The loop's thread takes no signals: they belong to the program that embeds it.
std::thread start_without_signals(auto body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

struct Loop::Connection {
  Connection(Id id, FileDescriptor socket, Server& server, Limits limits)
      : id(id), socket(std::move(socket)), session(server, limits) {}

  const Id id;
  const FileDescriptor socket;
  Session session;
  std::uint32_t watched_events = EPOLLIN;
  bool waits = false;  // its id is in blocked_
};

Loop::Loop(Server& server, Limits limits)
    : server_(server), limits_(limits), epoll_(::epoll_create1(EPOLL_CLOEXEC)), waker_(std::make_shared<Waker>()) {
  if (!epoll_) throw Error(ErrorKind::kSystem, std::string("epoll: ") + std::strerror(errno));
  watch(epoll_, EPOLL_CTL_ADD, waker_->descriptor(), EPOLLIN, kWakerId);
}

Loop::~Loop() { close(); }

std::string Loop::listen(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (closed_) throw Error(ErrorKind::kClosed, "address '" + address + "': the server is closed");
  auto listener = std::make_unique<UnixListener>(Address::parse(address));
  const Id id = std::exchange(next_listener_, next_listener_ + 2);
  watch(epoll_, EPOLL_CTL_ADD, listener->descriptor(), EPOLLIN, id);
  auto text = listener->address().text();
  listeners_[id] = std::move(listener);
  if (!thread_.joinable()) thread_ = start_without_signals([this] { run(); });
  return text;
}

void Loop::close() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    listeners_.clear();
    thread = std::move(thread_);
  }
  stop_.store(true);
  waker_->poke();
  if (thread.joinable()) thread.join();
}

void Loop::run() {
  std::array<epoll_event, kMaxEvents> events;
  while (!stop_.load()) {
    const int wait = milliseconds_until(next_deadline());
    const int count = ::epoll_wait(epoll_.get(), events.data(), kMaxEvents, wait);
    bool tables_changed = false;
    for (int i = 0; i < count; ++i) {
      const Id id = events[i].data.u64;
      if (id == kWakerId) {
        waker_->acknowledge();
        tables_changed = true;
      } else if (is_listener(id)) {
        accept_from(id);
      } else if (const auto found = connections_.find(id); found != connections_.end()) {
        on_socket(*found->second, events[i].events);
      }
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= accept_again_) {
      accept_again_ = never();
      for (const Id id : std::exchange(paused_listeners_, {})) watch_listener(id, true);
    }
    if (tables_changed || now >= next_deadline()) resume_blocked();
  }
  shut();
}

Deadline Loop::next_deadline() const {
  Deadline first = accept_again_;
  for (const Id id : blocked_) first = std::min(first, connections_.at(id)->session.deadline());
  return first;
}

void Loop::accept_from(Id id) {
  for (;;) {
    FileDescriptor socket;
    {
      const std::lock_guard lock(mutex_);
      const auto found = listeners_.find(id);
      if (found == listeners_.end()) return;
      socket = found->second->accept();
    }
    if (socket) {
      add_connection(std::move(socket));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EACCES && errno != ECONNABORTED && errno != EINTR) {
      watch_listener(id, false);
      paused_listeners_.push_back(id);
      accept_again_ = std::chrono::steady_clock::now() + kAcceptPause;
      return;
    }
  }
}

void Loop::watch_listener(Id id, bool accepting) {
  const std::lock_guard lock(mutex_);
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return;
  watch(epoll_, EPOLL_CTL_MOD, found->second->descriptor(), accepting ? EPOLLIN : 0u, id);
}

void Loop::add_connection(FileDescriptor socket) {
  const Id id = std::exchange(next_connection_, next_connection_ + 2);
  try {
    auto connection = std::make_unique<Connection>(id, std::move(socket), server_, limits_);
    watch(epoll_, EPOLL_CTL_ADD, connection->socket.get(), connection->watched_events, id);
    connections_.emplace(id, std::move(connection));
    connection_count_.fetch_add(1);
  } catch (const std::exception&) {
    // No memory, or no room in epoll: the peer sees its connection closed.
  }
}

void Loop::drop(Id id) {
  std::erase(blocked_, id);
  if (connections_.erase(id) > 0) connection_count_.fetch_sub(1);
}

void Loop::on_socket(Connection& connection, std::uint32_t events) {
  try {
    // A peer that hung up takes no reply. What it sent before is handled, unless the session is held.
    if ((events & (EPOLLHUP | EPOLLERR)) != 0 && !connection.session.wants_input()) throw Gone();
    if ((events & ~EPOLLOUT) != 0) receive(connection);
    settle(connection);
  } catch (const std::exception&) {
    drop(connection.id);
  }
}

void Loop::receive(Connection& connection) {
  std::size_t taken = 0;
  while (connection.session.wants_input() && taken < kReadBytesPerTurn) {
    const auto space = connection.session.prepare();
    const auto count = ::recv(connection.socket.get(), space.data(), space.size(), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0 && !(count < 0 && errno == EINTR)) throw Gone();
    if (count < 0) continue;
    taken += static_cast<std::size_t>(count);
    connection.session.commit(static_cast<std::size_t>(count), std::chrono::steady_clock::now());
    if (static_cast<std::size_t>(count) < space.size()) return;  // the socket is empty: no need to ask again
  }
}

// Sends until the socket is full or nothing is left.
void Loop::send(Connection& connection) {
  for (;;) {
    const auto buffers = connection.session.output();
    if (buffers.empty()) return;
    std::array<iovec, SendQueue::kMaxBuffers> parts;
    std::transform(buffers.begin(), buffers.end(), parts.begin(), [](std::span<const std::byte> buffer) {
      return iovec{const_cast<std::byte*>(buffer.data()), buffer.size()};
    });
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = buffers.size();
    const auto count = ::sendmsg(connection.socket.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0 && errno != EINTR) throw Gone();
    if (count > 0) connection.session.consumed(static_cast<std::size_t>(count), std::chrono::steady_clock::now());
  }
}

// Sends what there is, and has epoll watch for what the session needs next.
void Loop::settle(Connection& connection) {
  send(connection);
  if (connection.session.blocked()) note_blocked(connection);
  const bool sending = !connection.session.output().empty();
  if (connection.session.closing() && !sending) throw Gone();
  const std::uint32_t events = (connection.session.wants_input() ? EPOLLIN : 0u) | (sending ? EPOLLOUT : 0u);
  if (events != connection.watched_events) {
    watch(epoll_, EPOLL_CTL_MOD, connection.socket.get(), events, connection.id);
    connection.watched_events = events;
  }
}

void Loop::note_blocked(Connection& connection) {
  if (!connection.waits) blocked_.push_back(connection.id);
  connection.waits = true;
  watch_table(connection.session.blocked_on());
}

void Loop::watch_table(const std::shared_ptr<Table>& table) {
  for (const auto& watched : watched_) {
    if (watched.table == table) return;
  }
  const auto waker = table->add_waker([waker = waker_] { waker->poke(); });
  watched_.push_back({table, waker});
  waker_->poke();  // the table may have changed before it knew of us
}

void Loop::resume_blocked() {
  const auto now = std::chrono::steady_clock::now();
  for (const Id id : std::exchange(blocked_, {})) {
    auto& connection = *connections_.at(id);
    connection.waits = false;
    try {
      connection.session.resume(now);
      settle(connection);
    } catch (const std::exception&) {
      drop(id);
    }
  }
}

void Loop::shut() {
  for (const auto& watched : watched_) watched.table->remove_waker(watched.waker);
  watched_.clear();
  for (const auto& [id, connection] : connections_) {
    try {
      connection->session.resume(std::chrono::steady_clock::now());
      send(*connection);
    } catch (const std::exception&) {
      // It is closed below in any case.
    }
  }
  blocked_.clear();
  connections_.clear();
  connection_count_.store(0);
}

}  // namespace headrace
