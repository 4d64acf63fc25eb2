#include "io/loop.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "core/entropy.h"
#include "core/error.h"
#include "io/shared_memory.h"
#include "wire/frame.h"

namespace headrace {
namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kMaxAppliers = 16;  // threads; more cores than that wait for the memory
constexpr std::size_t kErrands = 4;

// Says why, as far as the socket takes it at once.
void turn_away(const FileDescriptor& socket, const std::string& reason) {
  const auto header =
      encode_header({kReplyBit, static_cast<std::uint8_t>(ErrorKind::kSystem), 0, std::uint64_t{reason.size()}});
  std::vector<std::byte> frame(header.begin(), header.end());
  const auto body = as_bytes(reason);
  frame.insert(frame.end(), body.begin(), body.end());
  [[maybe_unused]] const auto sent = ::send(socket.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
}

}  // namespace

Loop::Loop(Server& server, LoopOptions options)
    : server_(server),
      options_(std::move(options)),
      samplers_(connection_count_, options_.max_unproven, hooks(true)),
      others_(connection_count_, options_.max_unproven, [this] {
        auto accepting = hooks(false);
        accepting.accept = [this](Id id) { return accept(id); };
        return accepting;
      }()) {
  for (std::size_t i = 0; i < kErrands; ++i) {
    errands_.push_back(std::make_unique<Reactor>(connection_count_, options_.max_unproven, hooks(true)));
  }
  const std::size_t count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMaxAppliers);
  for (std::size_t i = 0; i < count; ++i) {
    appliers_.push_back(std::make_unique<Reactor>(connection_count_, options_.max_unproven, hooks(false)));
  }
}

Loop::~Loop() { close(); }

std::string Loop::listen(const std::string& address) {
  const auto refuse = [&](ErrorKind kind, const std::string& what) {
    throw Error(kind, "address '" + address + "': " + what);
  };
  const LockGuard lock(mutex_);
  if (closed_) refuse(ErrorKind::kClosed, "the server is closed");
  auto listeners = listen_on(Address::parse(address));
  for (const auto& listener : listeners) {
    if (listener->local() || options_.token) continue;
    refuse(ErrorKind::kRefused,
           "it is reached from other machines, so a token is required: pass --token-file; it is not served");
  }
  auto text = listeners.front()->address().text();
  for (auto& listener : listeners) {
    const Id id = std::exchange(next_listener_, next_listener_ + 2);
    others_.watch_listener(id, listener->descriptor());
    listeners_[id] = std::move(listener);
  }
  others_.start();
  return text;
}

void Loop::close() {
  {
    const LockGuard lock(mutex_);
    closed_ = true;
    listeners_.clear();
  }
  others_.stop();
  for (const auto& applier : appliers_) applier->stop();
  samplers_.stop();
  for (const auto& errand : errands_) errand->stop();
}

bool Loop::accept(Id id) {
  const LockGuard lock(mutex_);
  const auto found = listeners_.find(id);
  if (found == listeners_.end()) return true;
  for (int left = kAcceptsPerTurn; left > 0; --left) {
    auto accepted = found->second->accept();
    if (accepted.socket) {
      admit(std::move(accepted), found->second->address().is_unix());
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EACCES && errno != ECONNABORTED && errno != EINTR) {
      return false;
    }
  }
  return true;  // the rest after others have had their turn
}

void Loop::admit(Accepted accepted, bool is_unix) {
  if (connection_count_.load() >= options_.max_connections) {
    return turn_away(accepted.socket, "the server has " + std::to_string(options_.max_connections) +
                                          " connections, which is its limit; this one is closed");
  }
  const Id id = std::exchange(next_connection_, next_connection_ + 2);
  try {
    auto connection = std::make_unique<ServedConnection>(id, std::move(accepted.socket), server_,
                                                         session_options(std::move(accepted.peer), is_unix));
    connection_count_.fetch_add(1);
    others_.adopt(std::move(connection));
  } catch (const std::exception&) {
    // No memory: the peer sees its connection closed.
  }
}

Reactor::Hooks Loop::hooks(bool background) {
  return {
      .reactor_of = [this](const Session& session, Reactor& current) -> Reactor& { return place_of(session, current); },
      .background = background};
}

Reactor& Loop::place_of(const Session& session, Reactor& current) {
  const auto is_current = [&](const auto& errand) { return errand.get() == &current; };
  switch (session.place()) {
    case Session::Place::kSampling:
      return samplers_;
    case Session::Place::kSlow:
      if (std::ranges::any_of(errands_, is_current)) return current;
      return **std::ranges::min_element(errands_, {}, [](const auto& errand) { return errand->connections(); });
    case Session::Place::kShards:
      return *appliers_[session.lane() % appliers_.size()];
    case Session::Place::kQuick:
      break;
  }
  return others_;
}

SessionOptions Loop::session_options(std::string peer, bool is_unix) const {
  SessionOptions options{.limits = options_.limits, .peer = std::move(peer), .yields = true};
  if (is_unix) {
    options.make_region = make_shared_region;
    options.sees_end = true;
  }
  if (options_.token) {
    options.token = &*options_.token;
    options.token_required = !is_unix;
    fill_with_entropy(options.nonce);
  }
  return options;
}

}  // namespace headrace
