// Sessions under two schedulers, whose peers connect, send, receive and vanish in any order, while tables change and
// time passes. No session may be lost, called after its end, overtaken in its turn, or left waiting for a table that
// would let its request through; and when all have ended, nothing is left of them.
//
// With HEADRACE_LIBFUZZER this is a libFuzzer target; otherwise main() runs a fixed number of seeded inputs. An input
// is a list of operations of two bytes each: what, and with which connection, table or amount.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/scheduler.h"
#include "trials.h"
#include "wire/batch_sections.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Id = Scheduler::Id;

constexpr std::size_t kMaxUnproven = 2;
constexpr std::size_t kMaxConnections = 12;
constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();
constexpr int kMaxRounds = 10'000;  // in which all work must come to an end
constexpr std::uint32_t kBatch = 8;
constexpr std::array<const char*, 2> kTables = {"replay", "other"};

const Token& token() {
  static const Token kToken(as_bytes("sixteen or more bytes"));
  return kToken;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_scheduler: %s\n", what);
  std::abort();
}

// A connection as both of its ends see it: the bytes on their way to the session, and those that the peer has received.
struct Connection {
  std::unique_ptr<Session> session;
  std::size_t scheduler = 0;
  bool has_token = false;
  std::size_t window = kUnlimited;  // bytes that the peer takes
  Bytes sent = {};                  // by the peer, and not yet received
  Bytes received = {};              // by the peer
  std::uint64_t requests = 0;       // sent

  // Of an insert that is held: its place among those of the same table and scheduler.
  struct Held {
    std::uint64_t request, ticket;
    std::weak_ptr<Table> table;
  };
  std::optional<Held> held = {};
};

// A batch that another thread gathers: while it does, no insert overwrites it.
struct Reader {
  explicit Reader(std::shared_ptr<Table> read)
      : table(std::move(read)),
        block(block_bytes(small_signature(), kBatch)),
        draw(table->try_draw(lay_out(small_signature(), kBatch, block.data()), 0.5)) {}

  std::shared_ptr<Table> table;
  Bytes block;
  std::unique_ptr<Table::Draw> draw;
};

// The driver of both schedulers, and everything around them.
class World {
 public:
  World() {
    for (const char* name : kTables) server_.add_table(name, limited_table());
    for (auto& scheduler : schedulers_) scheduler.emplace(kMaxUnproven, nullptr);
  }

  void apply(std::uint8_t what, std::uint8_t with);
  void settle();
  void end();

 private:
  void connect(std::uint8_t with);
  void close(Id id);
  void send_request(Connection& connection, std::uint8_t with);
  void change_table(std::uint8_t with);
  void hand_over(Id id);
  void take(Connection& connection, std::size_t most);
  void receive(Id id, std::size_t most);
  void settle(Id id);
  void note(Id id);
  void turn(std::size_t which);
  void resume(Id id);
  bool is_first(const Connection& connection, const std::shared_ptr<Table>& table) const;
  void check_waiting(Id id);
  void check_replies(const Connection& connection, bool all) const;
  std::vector<Id> ids() const;

  Server server_;
  std::array<std::optional<Scheduler>, 2> schedulers_;
  std::map<Id, Connection> connections_;
  std::optional<Reader> reader_;
  Id next_id_ = 2;
  std::uint64_t next_ticket_ = 0;
  std::int64_t now_ = 0;  // milliseconds
};

void World::connect(std::uint8_t with) {
  if (connections_.size() >= kMaxConnections) return;
  SessionOptions options;
  options.yields = true;
  if (with % 4 == 0) options.token = &token();
  const Id id = std::exchange(next_id_, next_id_ + 2);
  auto& connection = connections_[id];
  connection.session = std::make_unique<Session>(server_, options, later(now_));
  connection.scheduler = std::size_t{with} / 4 % 2;
  connection.has_token = options.token != nullptr;
  if (with >= 128) connection.window = with;
  Session& session = *connection.session;
  auto& scheduler = *schedulers_[connection.scheduler];
  if (const auto oldest = scheduler.add(id, session, later(now_))) {
    require(connections_.contains(*oldest) && !connections_.at(*oldest).session->proven(),
            "a session is to be closed that has ended or has shown the token");
    close(*oldest);
  }
}

void World::close(Id id) {
  const auto& connection = connections_.at(id);
  check_replies(connection, false);
  schedulers_[connection.scheduler]->remove(id);
  connections_.erase(id);
}

// Replies come in the order of the requests. All of them, unless the server has closed the connection.
void World::check_replies(const Connection& connection, bool all) const {
  std::span<const std::byte> bytes = connection.received;
  std::uint64_t expected = 1;
  while (bytes.size() >= kFrameHeaderBytes) {
    const auto header = decode_header(bytes.first<kFrameHeaderBytes>(), Limits());
    if (bytes.size() - kFrameHeaderBytes < header.length) break;
    if (header.request != 0) require(header.request == expected++, "a reply is missing or repeated");
    bytes = bytes.subspan(kFrameHeaderBytes + header.length);
  }
  require(!all || (bytes.empty() && expected == connection.requests + 1), "a request without a reply");
}

void World::send_request(Connection& connection, std::uint8_t with) {
  const auto request = [&](MessageType type, std::string_view name, std::span<const std::byte> payload) {
    connection.sent += frame(type, name, payload, ++connection.requests);
  };
  if (connection.has_token && connection.requests == 0) {
    request(MessageType::kHello, "", Nonce{});
    request(MessageType::kAuthenticate, "", token().client_proof(Nonce{}, Nonce{}));
  }
  const char* table = kTables[with / 8 % 2];
  const std::int64_t wait = std::array{-1, 0, 300, 4000}[with / 16 % 4];
  switch (with % 8) {
    case 0:
    case 1:
      return request(MessageType::kInsert, table, insert_payload(chunk_of(kBatch), wait));
    case 2: {  // may be held between two of its chunks
      auto payload = insert_payload(chunk_of(kBatch), wait);
      for (int i = 0; i < 3; ++i) payload += chunk_of(kBatch);
      return request(MessageType::kInsert, table, payload);
    }
    case 3:
    case 4:
      return request(MessageType::kSample, table, sample_payload(1 + with / 64 * 4, 0.5, wait));
    case 5: {  // of three turns
      Bytes payload(10'000 * (sizeof(std::uint64_t) + sizeof(float)));
      return request(MessageType::kUpdatePriorities, table, payload);
    }
    case 6:
      for (int i = 0; i < 2 * with; ++i) request(MessageType::kFetch, "policy", fetch_payload(0));
      return;
    default:
      if (with >= 64) return request(MessageType::kSignature, table, {});
      if (with >= 32) return request(MessageType::kDrop, table, {});
      auto payload = numbers(std::uint8_t{0});
      payload += as_bytes(limited_table().encode());
      return request(MessageType::kOpenTable, table, payload);
  }
}

// What other threads do to a table.
void World::change_table(std::uint8_t with) {
  const char* name = kTables[with / 8 % 2];
  const auto names = server_.table_names();
  if (std::ranges::find(names, name) == names.end()) {
    server_.add_table(name, limited_table());
    return;
  }
  const auto table = server_.table(name);
  if (with % 8 == 0) return table->close();
  if (with % 8 == 1) return static_cast<void>(server_.drop(name));
  table->reopen();
  table->set_paused(with % 8 == 2);
  if (with % 8 == 3) table->try_insert(chunk_of(kBatch));
  reader_.reset();
  if (with % 8 < 4) return;
  reader_.emplace(table);
  if (with % 8 < 6) reader_.reset();
}

// To the other scheduler, as from one thread to another.
void World::hand_over(Id id) {
  auto& connection = connections_.at(id);
  schedulers_[connection.scheduler]->remove(id);
  connection.scheduler = 1 - connection.scheduler;
  connection.held.reset();
  if (const auto oldest = schedulers_[connection.scheduler]->add(id, *connection.session, later(now_))) close(*oldest);
  if (connections_.contains(id)) resume(id);
}

void World::resume(Id id) {
  Scheduler::resume(*connections_.at(id).session, later(now_));
  settle(id);
}

void World::take(Connection& connection, std::size_t most) {
  const auto bytes = std::span(connection.sent).first(std::min(most, connection.sent.size()));
  const std::size_t taken = feed(*connection.session, bytes, later(now_));
  connection.sent.erase(connection.sent.begin(), connection.sent.begin() + static_cast<std::ptrdiff_t>(taken));
}

void World::receive(Id id, std::size_t most) {
  take(connections_.at(id), most);
  settle(id);
}

// Sends what the peer takes. A session that has come to its end is closed.
void World::settle(Id id) {
  auto& connection = connections_.at(id);
  Session& session = *connection.session;
  for (;;) {
    if (session.broken()) return close(id);
    const auto buffers = session.output();
    if (buffers.empty() && session.closing()) return close(id);
    if (buffers.empty() || connection.window == 0) break;
    const auto part = buffers.front().first(std::min(connection.window, buffers.front().size()));
    connection.received += part;
    if (connection.window != kUnlimited) connection.window -= part.size();
    session.consumed(part.size(), later(now_));
  }
  note(id);
}

void World::note(Id id) {
  auto& connection = connections_.at(id);
  const Session& session = *connection.session;
  schedulers_[connection.scheduler]->note(id);
  const auto table = session.blocked() && session.inserts() ? session.blocked_on() : nullptr;
  if (!table) {
    connection.held.reset();
  } else if (!connection.held || connection.held->request != session.requests()) {
    connection.held = {session.requests(), next_ticket_++, table};
  }
}

bool World::is_first(const Connection& connection, const std::shared_ptr<Table>& table) const {
  return std::ranges::none_of(connections_, [&](const auto& entry) {
    const auto& other = entry.second;
    return other.scheduler == connection.scheduler && other.held && other.held->table.lock() == table &&
           other.held->ticket < connection.held->ticket;
  });
}

// A turn of one scheduler: each session that gave others their turn gets exactly one, and inserts go on in order.
void World::turn(std::size_t which) {
  std::set<Id> yielded, served;
  for (const auto& [id, connection] : connections_) {
    if (connection.scheduler == which && connection.session->yielded()) yielded.insert(id);
  }
  schedulers_[which]->turn(later(now_), [&](Id id, Scheduler::Action action) {
    require(connections_.contains(id) && connections_.at(id).scheduler == which, "a session is called after its end");
    auto& connection = connections_.at(id);
    Session& session = *connection.session;
    const bool resumes = action == &Scheduler::resume;
    if (resumes && session.yielded()) require(served.insert(id).second, "a session has two turns at once");
    const auto held = connection.held;
    const auto table = held ? held->table.lock() : nullptr;
    const bool first = !table || later(now_) >= session.deadline() || is_first(connection, table);
    action(session, later(now_));
    const bool waits = session.blocked() && session.requests() == (held ? held->request : 0);
    require(!held || waits || first, "an insert overtakes another");
    settle(id);
  });
  for (const Id id : yielded) {
    require(served.contains(id) || !connections_.contains(id), "a session that yielded has no turn");
  }
}

std::vector<Id> World::ids() const {
  std::vector<Id> ids;
  for (const auto& [id, connection] : connections_) ids.push_back(id);
  return ids;
}

// Until nothing more happens without a peer, another thread or the time.
void World::settle() {
  const auto busy = [this] {
    return std::ranges::any_of(schedulers_, [this](const auto& scheduler) {
      return scheduler->ready() || scheduler->next_deadline() <= later(now_);
    });
  };
  const auto has_input = [](const auto& entry) {
    return entry.second.session->wants_input() && !entry.second.sent.empty();
  };
  int rounds = 0;
  do {
    for (const Id id : ids()) receive(id, kUnlimited);
    for (std::size_t which = 0; which < schedulers_.size(); ++which) turn(which);
    require(++rounds < kMaxRounds, "the work never ends");
  } while (busy() || std::ranges::any_of(connections_, has_input));
  for (const Id id : ids()) check_waiting(id);
}

// Once all is settled, a session waits for its peer, or for a table that does not let its request through.
void World::check_waiting(Id id) {
  auto& connection = connections_.at(id);
  Session& session = *connection.session;
  require(!session.yielded(), "a session that yielded is lost");
  if (!session.blocked()) return;
  const auto table = session.blocked_on();
  require(table != nullptr, "a session waits for a table that is gone");
  require(later(now_) < session.deadline(), "a session waits beyond its deadline");
  if (!session.inserts() || is_first(connection, table)) {
    require(!session.resume(later(now_)), "a session waits though its table would let it through");
  }
}

void World::apply(std::uint8_t what, std::uint8_t with) {
  const auto chosen = [&] { return std::next(connections_.begin(), with % static_cast<int>(connections_.size())); };
  if (connections_.empty()) return connect(with);
  switch (what % 16) {
    case 0:
      return connect(with);
    case 1:
      return close(chosen()->first);
    case 2:
    case 3:
    case 4:
    case 5:
      return send_request(chosen()->second, what / 16 * 16 + with / 16);
    case 6:
      return receive(chosen()->first, 1 + std::size_t{what} * 16);
    case 7:
      take(chosen()->second, kUnlimited);
      change_table(what / 16 + with);  // before the scheduler knows that the session is held
      return settle(chosen()->first);
    case 8: {
      auto& window = chosen()->second.window;
      if (window != kUnlimited) window += std::size_t{what} * 8;
      return settle(chosen()->first);
    }
    case 9:
      return turn(with % 2);
    case 10:
      return hand_over(chosen()->first);
    case 11:
    case 12:
      return change_table(with);
    case 13:
      now_ += std::array{1, 200, 1'000, 1'000, 3'000, 70'000}[with % 6];
      return;
    default:
      return settle();
  }
}

void World::end() {
  reader_.reset();
  for (auto& [id, connection] : connections_) connection.window = kUnlimited;
  for (const Id id : ids()) settle(id);
  settle();
  while (server_.drop("") > 0) settle();  // what is held for ever ends so, and may open a table again
  for (const auto& [id, connection] : connections_) {
    if (connection.session->proven()) check_replies(connection, true);
  }
  for (const Id id : ids()) close(id);
  for (auto& scheduler : schedulers_) {
    require(scheduler->size() == 0, "a session is left");
    for (int seconds = 0; seconds < 2; ++seconds) {
      now_ += 1'000;
      scheduler->turn(later(now_), [](Id, Scheduler::Action) { require(false, "a session is called after its end"); });
    }
    require(!scheduler->ready() && scheduler->next_deadline() == never(), "work is left of sessions that have ended");
  }
  require(server_.meters().empty() && server_.budget().used() == 0, "memory is left of sessions that have ended");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world;
  for (std::size_t at = 0; at + 1 < size; at += 2) world.apply(data[at], data[at + 1]);
  world.end();
  return 0;
}

#ifndef HEADRACE_LIBFUZZER
int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : trials(3000);
  std::mt19937_64 random(20261123);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::uint8_t> input(2 * (1 + random() % 100));
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("fuzz_scheduler: %d inputs\n", rounds);
  return 0;
}
#endif
