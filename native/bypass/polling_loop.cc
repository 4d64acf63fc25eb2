#include "bypass/polling_loop.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "bypass/stack.h"
#include "core/entropy.h"
#include "core/error.h"
#include "wire/frame.h"

namespace headrace::bypass {
namespace {

void go_on(Session&, Deadline) {}

// Says why, and closes.
void turn_away(std::unique_ptr<TcpConnection> tcp, const std::string& reason) {
  tcp->copy(encode_reply({}, static_cast<std::uint8_t>(ErrorKind::kSystem), as_bytes(reason), 0));
  tcp->push();
}

}  // namespace

PollingLoop::PollingLoop(Server& server, LoopOptions options)
    : server_(server), options_(std::move(options)), scheduler_(options_.max_unproven, {}) {}

PollingLoop::~PollingLoop() {
  while (!connections_.empty()) drop(connections_.begin()->first);
  for (auto& each : interfaces_) {
    each.listener.reset();
    each.interface->flush();
  }
}

void PollingLoop::listen(std::unique_ptr<Interface> interface, std::uint16_t port, bool local) {
  if (!local && !options_.token) {
    throw Error(ErrorKind::kRefused,
                "it is reached from other machines, so a token is required: pass --token-file; it is not served");
  }
  auto listener = std::make_unique<TcpListener>(*interface, port);
  interfaces_.push_back({std::move(interface), std::move(listener)});
}

bool PollingLoop::turn(Deadline now) {
  advance_stack(now);
  bool busy = false;
  for (const auto& each : interfaces_) {
    busy = each.interface->poll() || busy;
    if (!each.listener->has_accepted()) continue;
    for (auto& tcp : each.listener->take_accepted()) admit(std::move(tcp), now);
  }
  serve_ready(now);
  scheduler_.turn(now, [&](Id id, Scheduler::Action action) { serve(id, now, action); });
  for (const auto& each : interfaces_) each.interface->flush();
  return busy || !ready_.empty() || scheduler_.ready();
}

void PollingLoop::watch() {
  for (const auto& each : interfaces_) each.interface->watch();
}

void PollingLoop::admit(std::unique_ptr<TcpConnection> tcp, Deadline now) {
  if (connections_.size() >= options_.max_connections) {
    return turn_away(std::move(tcp), "the server has " + std::to_string(options_.max_connections) +
                                         " connections, which is its limit; this one is closed");
  }
  auto window = server_.budget().try_take(TcpConnection::kWindowBytes);
  if (!window) {
    return turn_away(std::move(tcp), "the server's memory limit leaves no room for another connection");
  }
  const Id id = next_id_++;
  try {
    for (auto* ids : {&ready_, &turn_}) ids->reserve(connections_.size() + 1);
    auto options = session_options("dpdk " + tcp->peer());
    auto connection =
        std::make_unique<PolledConnection>(std::move(tcp), std::move(*window), server_, std::move(options), now);
    auto& entry = *connections_.emplace(id, Served{std::move(connection)}).first;
    entry.second.connection->tcp().on_ready([this, &entry] { enqueue(entry); });
    if (const auto oldest = scheduler_.add(id, entry.second.connection->session(), now)) drop(*oldest);
  } catch (const std::exception&) {
    return drop(id);  // no memory: the peer sees its connection closed
  }
  serve(id, now, go_on);  // it may have sent something already
}

SessionOptions PollingLoop::session_options(std::string peer) const {
  SessionOptions options{.limits = options_.limits, .peer = std::move(peer), .yields = true};
  if (options_.token) {
    options.token = &*options_.token;
    fill_with_entropy(options.nonce);
  }
  return options;
}

// Runs `action` on a session, and moves its bytes.
void PollingLoop::serve(Id id, Deadline now, Scheduler::Action action) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  try {
    auto& connection = *found->second.connection;
    action(connection.session(), now);
    if (connection.exchange(now)) enqueue(*found);
    scheduler_.note(id);
  } catch (const std::exception&) {
    drop(id);
  }
}

void PollingLoop::enqueue(Entry& entry) {
  if (!std::exchange(entry.second.ready, true)) ready_.push_back(entry.first);
}

void PollingLoop::serve_ready(Deadline now) {
  turn_.clear();
  turn_.swap(ready_);
  for (const Id id : turn_) {
    if (const auto found = connections_.find(id); found != connections_.end()) found->second.ready = false;
    serve(id, now, go_on);
  }
}

void PollingLoop::drop(Id id) {
  scheduler_.remove(id);
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (found->second.ready) std::erase(ready_, id);
  connections_.erase(found);
}

bool PollingLoop::has_output() const {
  return std::ranges::any_of(connections_,
                             [](const auto& each) { return each.second.connection->tcp().in_flight() > 0; });
}

}  // namespace headrace::bypass
