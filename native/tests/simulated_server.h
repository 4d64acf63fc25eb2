// The server of a simulation: sessions under two schedulers, as the reactors of a loop have them, and a table in memory
// or in a file. It is killed between any two writes of the file, or loses power, and starts again.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arena_fixtures.h"
#include "core/sealed.h"
#include "io/scheduler.h"
#include "simulation.h"

namespace headrace::testing {

// What the file had where the server was ended. After a kill: all that it wrote before some moment, and of what it
// wrote until the next moment whose order is certain any words. After a power loss: pages of the last flush, and later
// ones.
struct Remains {
  std::string image;
  std::string flushed;  // on the disk before
  std::string crashed;  // what the process had written
  bool power_loss = false;
};

class SimulatedServer {
 public:
  using Id = Scheduler::Id;

  SimulatedServer(SimulatedNetwork& network, TableOptions table)
      : network_(network), simulation_(network.simulation()), chance_(simulation_.chance), options_(std::move(table)) {
    require(std::exchange(current_, this) == nullptr, "one server at a time");
    if (!options_.path.empty()) file_.emplace();
    limits_.max_queued_bytes = std::size_t{1} << chance_.between(8, 22);
    if (file_ && chance_.one_in(4)) moments_left_ = chance_.between(2, 12);
    start();
    keep_flushed();
  }
  ~SimulatedServer() {
    stop();
    between_writes = nullptr;
    current_ = nullptr;
  }
  SimulatedServer(const SimulatedServer&) = delete;
  SimulatedServer& operator=(const SimulatedServer&) = delete;

  static constexpr const char* kTable = "replay";
  std::function<void(const Remains&)> after_crash = {};  // before it starts again

  bool up() const { return network_.up; }
  bool persistent() const { return file_.has_value(); }
  Table& table() { return *server_->table(kTable); }
  Server& server() { return *server_; }
  std::string image() const { return file_->bytes(); }
  std::size_t connections() const { return served_.size(); }
  std::vector<SimulatedConnection*> all_connections() const {
    std::vector<SimulatedConnection*> all;
    for (const auto& connection : network_.connections) all.push_back(connection.get());
    for (const auto& [id, served] : served_) all.push_back(served.connection.get());
    return all;
  }
  std::size_t connections_of(std::uint64_t client) const {
    const auto all = all_connections();
    return static_cast<std::size_t>(std::ranges::count(all, client, &SimulatedConnection::client));
  }

  void offer(Choices& choices);
  Time next_time() const;
  void check_held();  // where nothing can happen without time: no request waits that may go on
  void arm();         // it will be killed soon
  void lose_power();
  void keep_flushed() {
    if (!file_) return;
    table().flush();
    flushed_ = file_->bytes();
  }
  void check_gone() {
    require(served_.empty() && server_->meters().empty(), "sessions are left of clients that are gone");
    for (const auto& scheduler : schedulers_) require(scheduler->size() == 0, "a scheduler holds what has ended");
    require(server_->budget().used() == budget_, "memory is left of clients that are gone");
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kMaxSessions = 1000;

  struct Served {
    std::shared_ptr<SimulatedConnection> connection;
    std::unique_ptr<Session> session;
    std::size_t scheduler = 0;
    bool on_the_way = false;                                           // from one scheduler to the other
    std::optional<std::pair<std::uint64_t, std::uint64_t>> held = {};  // an insert: its number and its ticket
  };
  struct Gone {};

  template <typename Call>
  void call(Id id, Call action) {
    auto& served = served_.at(id);
    try {
      moment();
      if (killed_) return;
      action(served);
      settle(id, served);
    } catch (const Gone&) {
      close(id);
    }
  }
  void start();
  void stop();
  void accept(const std::shared_ptr<SimulatedConnection>& connection);
  void adopt(Id id);
  void receive(Served& served);
  void send(Served& served);
  void settle(Id id, Served& served);
  void close(Id id);
  void turn(std::size_t which);
  void crash_if_killed();
  void crash(Remains remains);
  void moment();
  bool hung_up(const Served& served) const {
    const Way& way = served.connection->to_server;
    return way.ended && way.open(simulation_.now());
  }
  bool can_receive(const Served& served) const {
    const Session& session = *served.session;
    if (hung_up(served)) return !session.yielded() || session.wants_input();
    return session.wants_input() && served.connection->to_server.readable(simulation_.now()) > 0;
  }
  static bool can_send(const Served& served) {
    const Way& way = served.connection->to_client;
    return !served.session->output().empty() && (way.room() > 0 || way.ended || way.dead);
  }

  SimulatedNetwork& network_;
  Simulation& simulation_;
  Chance& chance_;
  const TableOptions options_;
  Limits limits_;
  std::optional<fixtures::MemoryFile> file_;
  std::string flushed_;
  std::optional<Server> server_;
  std::uint64_t budget_ = 0;
  std::array<std::optional<Scheduler>, 2> schedulers_;
  std::map<Id, Served> served_;
  Id next_id_ = 1;
  std::uint64_t next_ticket_ = 0;
  Time start_at_ = never();
  std::uint64_t moments_left_ = 0;  // until it is killed; 0: it is not
  std::string before_;              // the file at the last of these
  bool killed_ = false;
  bool power_lost_ = false;
  Remains remains_;

  inline static SimulatedServer* current_ = nullptr;
};

// A moment whose place in the order of writes is certain: where writes are kept in order, and where bytes come from
// outside or go there.
inline void SimulatedServer::moment() {
  if (moments_left_ == 0 || killed_) return;
  if (--moments_left_ > 0) {
    if (moments_left_ == 1) before_ = file_->bytes();
    return;
  }
  const std::string now = file_->bytes();
  before_.resize(now.size());  // of a file that is being made
  remains_ = {.image = before_, .flushed = flushed_, .crashed = now};
  const std::uint64_t share = chance_.below(5);  // of four, of the words that were written in between
  for (std::size_t at = 0; at + 8 <= now.size(); at += 8) {
    if (std::memcmp(&now[at], &before_[at], 8) == 0 || chance_.below(4) >= share) continue;
    remains_.image.replace(at, 8, now, at, 8);
  }
  killed_ = true;
  simulation_.note("kill", share);
}

inline void SimulatedServer::start() {
  for (;;) {
    if (file_) between_writes = [] { current_->moment(); };
    server_.emplace();
    auto options = options_;
    if (file_) options.path = file_->path();
    moment();
    server_->add_table(kTable, options);
    moment();
    if (!killed_) break;  // else in the middle of its recovery
    server_.reset();
    const Remains remains = std::exchange(remains_, {});
    file_.emplace(remains.image);
    moments_left_ = 0;
    killed_ = false;
  }
  budget_ = server_->budget().used();
  for (auto& scheduler : schedulers_) scheduler.emplace(kMaxSessions, nullptr);
  start_at_ = never();
  if (std::exchange(power_lost_, false)) keep_flushed();  // which a recovery from a power loss does
  network_.up = true;
  simulation_.note("start", next_id_);
}

inline void SimulatedServer::stop() {
  network_.up = false;
  for (auto& [id, served] : served_) {
    if (!served.on_the_way) schedulers_[served.scheduler]->remove(id);
  }
  served_.clear();
  for (auto& scheduler : schedulers_) scheduler.reset();
  server_.reset();
}

inline void SimulatedServer::crash_if_killed() {
  if (!std::exchange(killed_, false)) return;
  crash(std::exchange(remains_, {}));
}

inline void SimulatedServer::crash(Remains remains) {
  moments_left_ = 0;
  for (SimulatedConnection* const connection : all_connections()) {
    connection->to_server.ended = connection->to_server.dead = true;
    if (!connection->to_client.ended) connection->to_client.cut(chance_);
    connection->to_client.stalled_until = {};
    connection->faulty = true;
  }
  stop();
  network_.connections.clear();
  file_.emplace(remains.image);
  after_crash(remains);
  start_at_ = simulation_.now() + chance_.duration(milliseconds(1), seconds(5));
  if (chance_.one_in(4)) moments_left_ = chance_.between(2, 12);
}

inline void SimulatedServer::arm() {
  if (!file_ || !up() || moments_left_ > 0) return;
  moments_left_ = chance_.between(2, chance_.one_in(2) ? 10 : 200);
  simulation_.note("arm", moments_left_);
}

inline void SimulatedServer::lose_power() {
  if (!file_ || !up()) return;
  Remains remains = {.image = flushed_, .flushed = flushed_, .crashed = file_->bytes(), .power_loss = true};
  const std::uint64_t share = chance_.between(1, 4);
  for (std::size_t at = 0; at < remains.image.size(); at += kPage) {
    if (chance_.below(5) < share) remains.image.replace(at, kPage, remains.crashed, at, kPage);
  }
  simulation_.note("power loss", share);
  crash(std::move(remains));
  flushed_ = file_->bytes();
  power_lost_ = true;
}

inline void SimulatedServer::accept(const std::shared_ptr<SimulatedConnection>& connection) {
  const Id id = std::exchange(next_id_, next_id_ + 1);
  SessionOptions options;
  options.limits = limits_;
  options.yields = true;
  auto& served = served_[id];
  served.connection = connection;
  served.session = std::make_unique<Session>(*server_, options, simulation_.now());
  std::erase(network_.connections, connection);
  adopt(id);
}

inline void SimulatedServer::adopt(Id id) {
  auto& served = served_.at(id);
  served.on_the_way = false;
  schedulers_[served.scheduler]->add(id, *served.session, simulation_.now());
  call(id, [this](Served& each) { Scheduler::resume(*each.session, simulation_.now()); });
}

// As a reactor: what a peer sent before it hung up is handled, unless the session is held.
inline void SimulatedServer::receive(Served& served) {
  Session& session = *served.session;
  Way& way = served.connection->to_server;
  if (hung_up(served) && !session.wants_input() && !session.yielded()) throw Gone();
  std::size_t most = chance_.one_in(2) ? chance_.between(1, 1 + way.bytes.size()) : way.bytes.size();
  simulation_.note("server receives", served.connection->id, most);
  while (session.wants_input() && most > 0 && !killed_) {
    const auto space = session.prepare();
    const std::size_t count = way.take(space.first(std::min(space.size(), most)));
    if (count == 0) break;
    most -= count;
    session.commit(count, simulation_.now());
  }
  if (session.wants_input() && way.at_end(simulation_.now())) throw Gone();
}

inline void SimulatedServer::send(Served& served) {
  Session& session = *served.session;
  auto& connection = *served.connection;
  while (!killed_) {
    if (session.broken()) throw Gone();
    const auto buffers = session.output();
    if (buffers.empty() && session.closing()) {
      require(connection.faulty || hung_up(served), "the server closed a connection without a fault");
      throw Gone();
    }
    Way& way = connection.to_client;
    const bool lost = way.ended || way.dead;  // which the server may not know yet
    if (lost && hung_up(served) && !buffers.empty()) throw Gone();
    const std::size_t room = lost ? way.window : way.room();
    if (buffers.empty() || room == 0) return;
    moment();
    if (killed_) return;
    const auto part = buffers.front().first(std::min(room, buffers.front().size()));
    if (!lost) way.bytes += part;
    simulation_.note("server sends", connection.id, part.size());
    session.consumed(part.size(), simulation_.now());
  }
}

inline void SimulatedServer::settle(Id id, Served& served) {
  send(served);
  if (killed_) return;
  const Session& session = *served.session;
  schedulers_[served.scheduler]->note(id);
  if (!session.blocked() || !session.inserts()) {
    served.held.reset();
  } else if (!served.held || served.held->first != session.requests()) {
    served.held = {session.requests(), next_ticket_++};
  }
  const std::size_t place = session.place() == Session::Place::kQuick ? 0 : 1;
  if (place == served.scheduler) return;
  schedulers_[served.scheduler]->remove(id);
  served.scheduler = place;
  served.on_the_way = true;
  served.held.reset();
}

inline void SimulatedServer::close(Id id) {
  auto& served = served_.at(id);
  simulation_.note("server closes", served.connection->id);
  served.connection->to_server.dead = true;
  served.connection->to_client.ended = true;
  if (!served.on_the_way) schedulers_[served.scheduler]->remove(id);
  served_.erase(id);
}

inline void SimulatedServer::turn(std::size_t which) {
  simulation_.note("turn", which);
  schedulers_[which]->turn(simulation_.now(), [&](Id id, Scheduler::Action action) {
    const auto found = served_.find(id);
    if (killed_ || found == served_.end() || found->second.on_the_way || found->second.scheduler != which) return;
    call(id, [&](Served& served) { action(*served.session, simulation_.now()); });
  });
}

inline void SimulatedServer::offer(Choices& choices) {
  const Time now = simulation_.now();
  if (!up()) {
    if (now >= start_at_) choices.push_back([this] { start(); });
    return;
  }
  for (const auto& connection : network_.connections) {
    if (connection->to_server.open(now)) {
      choices.push_back([this, connection] {
        accept(connection);
        crash_if_killed();
      });
    }
  }
  for (const auto& [id, served] : served_) {
    if (served.on_the_way) {
      choices.push_back([this, id = id] {
        adopt(id);
        crash_if_killed();
      });
      continue;
    }
    if (can_receive(served)) {
      choices.push_back([this, id = id] {
        call(id, [this](Served& each) { receive(each); });
        crash_if_killed();
      });
    } else if (can_send(served)) {
      choices.push_back([this, id = id] {
        call(id, [](Served&) {});
        crash_if_killed();
      });
    }
  }
  for (std::size_t which = 0; which < schedulers_.size(); ++which) {
    if (!schedulers_[which]->ready() && schedulers_[which]->next_deadline() > now) continue;
    choices.push_back([this, which] {
      turn(which);
      crash_if_killed();
    });
  }
}

inline Time SimulatedServer::next_time() const {
  if (!up()) return start_at_;
  Time next = never();
  for (const auto& scheduler : schedulers_) next = std::min(next, scheduler->next_deadline());
  const auto later_than_now = [&](const SimulatedConnection& connection) {
    for (const Time time : {connection.to_server.stalled_until, connection.to_client.stalled_until}) {
      if (time > simulation_.now()) next = std::min(next, time);
    }
  };
  for (const auto& connection : network_.connections) later_than_now(*connection);
  for (const auto& [id, served] : served_) later_than_now(*served.connection);
  return next;
}

inline void SimulatedServer::check_held() {
  if (!up() || moments_left_ > 0) return;
  for (auto& [id, served] : served_) {
    Session& session = *served.session;
    if (!session.blocked()) continue;
    require(simulation_.now() <= session.deadline(), "a request is held beyond its deadline");
    const bool behind =
        session.inserts() && std::ranges::any_of(served_, [&served = served](const auto& entry) {
          const auto& other = entry.second;
          return other.scheduler == served.scheduler && other.held && other.held->second < served.held->second;
        });
    require(behind || !session.resume(simulation_.now()), "a request is held though the table would let it go on");
  }
}

}  // namespace headrace::testing
