// A simulated world in one thread: its time, its chance, fibers, and a network whose connections deliver in pieces,
// stall and break at any byte. All of it follows from a seed.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/random.h"
#include "fiber.h"
#include "io/client_network.h"
#include "wire_fixtures.h"

namespace headrace::testing {

using Time = Session::Time;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct SimulationFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct FiberCancelled {};

inline void require(bool condition, const std::string& what) {
  if (!condition) throw SimulationFailure(what);
}

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  std::uint64_t number() { return random_.next(); }
  std::uint64_t below(std::uint64_t end) { return random_.next() % end; }  // end > 0
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  // Short times are as likely as long ones.
  Time::duration duration(milliseconds least, milliseconds most) {
    const double ratio = static_cast<double>(most.count()) / static_cast<double>(least.count());
    const double scaled = static_cast<double>(microseconds(least).count()) * std::pow(ratio, random_.uniform());
    return microseconds(static_cast<std::int64_t>(scaled));
  }

 private:
  Random random_;
};

// What may happen next. The simulation chooses one of these; where there is none, time passes.
using Choices = std::vector<std::function<void()>>;

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : chance(seed) {}
  ~Simulation() { cancel(); }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // Ends all fibers; what they refer to must still be there.
  void cancel() {
    cancelled_ = true;
    for (auto& task : tasks_) {
      try {
        if (!task->fiber.ended()) task->fiber.resume();
      } catch (...) {  // what it failed of is known
      }
    }
  }

  Chance chance;

  Time now() const { return now_; }
  void pass(Time::duration duration) { now_ += duration; }
  void pass_until(Time time) { now_ = std::max(now_, time); }

  // The trace: the same for the same seed.
  struct Event {
    Time at;
    const char* what;
    std::uint64_t id, amount;
  };
  void note(const char* what, std::uint64_t id, std::uint64_t amount = 0) {
    events_.push_back({now_, what, id, amount});
    if (events_.size() > kEventsKept) events_.pop_front();
    for (const std::uint64_t part : {static_cast<std::uint64_t>(now_.time_since_epoch().count()), id, amount}) {
      digest_ = (digest_ ^ part) * 0x100000001b3;
    }
  }
  std::uint64_t digest() const { return digest_; }
  const std::deque<Event>& events() const { return events_; }

  void start(std::function<void()> body) { tasks_.push_back(std::make_unique<Task>(std::move(body))); }
  // Of a fiber: until `ready`, or the time.
  void wait(Time until, std::function<bool()> ready) {
    if (cancelled_) throw FiberCancelled();
    running_->until = until;
    running_->ready = std::move(ready);
    Fiber::suspend();
    if (cancelled_) throw FiberCancelled();
  }
  void sleep(Time::duration duration) {
    wait(now_ + duration, [] { return false; });
  }

  bool all_ended() const {
    return std::ranges::all_of(tasks_, [](const auto& task) { return task->fiber.ended(); });
  }
  void offer(Choices& choices) {
    for (const auto& task : tasks_) {
      if (task->fiber.ended() || (now_ < task->until && !task->ready())) continue;
      choices.push_back([this, &task = *task] {
        running_ = &task;
        task.fiber.resume();
      });
    }
  }
  Time next_time() const {
    Time next = never();
    for (const auto& task : tasks_) {
      if (!task->fiber.ended()) next = std::min(next, task->until);
    }
    return next;
  }

 private:
  static constexpr std::size_t kEventsKept = 60;

  struct Task {
    explicit Task(std::function<void()> body) : fiber(std::move(body)) {}
    Fiber fiber;
    Time until = {};
    std::function<bool()> ready = {};
  };

  Time now_ = later(1);
  std::vector<std::unique_ptr<Task>> tasks_;
  Task* running_ = nullptr;
  bool cancelled_ = false;
  std::deque<Event> events_;
  std::uint64_t digest_ = 0xcbf29ce484222325;
};

// The bytes of a connection on their way to one of its ends.
struct Way {
  Bytes bytes = {};
  std::size_t window = 0;  // bytes that it holds at most
  Time stalled_until = {};
  bool ended = false;  // nothing follows: its sender is gone
  bool dead = false;   // its receiver is gone
  bool reset = false;  // it ended by a fault

  bool open(Time now) const { return now >= stalled_until; }
  std::size_t readable(Time now) const { return open(now) ? bytes.size() : 0; }
  bool at_end(Time now) const { return ended && open(now) && bytes.empty(); }
  std::size_t room() const { return ended || bytes.size() >= window ? 0 : window - bytes.size(); }

  std::size_t take(std::span<std::byte> into) {
    const std::size_t count = std::min(into.size(), bytes.size());
    std::copy_n(bytes.begin(), count, into.begin());
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void cut(Chance& chance) {  // at any byte
    bytes.resize(chance.below(bytes.size() + 1));
    ended = reset = true;
  }
};

struct SimulatedConnection {
  std::uint64_t id;
  std::uint64_t client;
  Way to_server, to_client;
  bool faulty = false;  // it was stalled or broken
};

class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(Simulation& simulation) : simulation_(simulation) {}

  Simulation& simulation() { return simulation_; }
  bool up = false;  // a server accepts connections
  std::vector<std::shared_ptr<SimulatedConnection>> connections;

  std::shared_ptr<SimulatedConnection> connect(std::uint64_t client) {
    Chance& chance = simulation_.chance;
    auto connection = std::make_shared<SimulatedConnection>(SimulatedConnection{next_id_++, client, {}, {}});
    connection->to_server.window = std::size_t{1} << chance.between(5, 16);
    connection->to_client.window = std::size_t{1} << chance.between(5, 16);
    connections.push_back(connection);
    simulation_.note("connect", connection->id, client);
    return connection;
  }

  void stall(SimulatedConnection& connection) {
    Chance& chance = simulation_.chance;
    const Time until = simulation_.now() + chance.duration(milliseconds(1), seconds(150));
    const auto ways = chance.between(1, 3);
    if ((ways & 1) != 0) connection.to_server.stalled_until = std::max(connection.to_server.stalled_until, until);
    if ((ways & 2) != 0) connection.to_client.stalled_until = std::max(connection.to_client.stalled_until, until);
    connection.faulty = true;
    simulation_.note("stall", connection.id, ways);
  }
  void cut(SimulatedConnection& connection) {
    connection.to_server.cut(simulation_.chance);
    connection.to_client.cut(simulation_.chance);
    connection.faulty = true;
    simulation_.note("cut", connection.id);
  }

 private:
  Simulation& simulation_;
  std::uint64_t next_id_ = 1;
};

class SimulatedTransport : public Transport {
 public:
  SimulatedTransport(SimulatedNetwork& network, std::shared_ptr<SimulatedConnection> connection, const bool& leaving)
      : simulation_(network.simulation()), connection_(std::move(connection)), leaving_(leaving) {}
  ~SimulatedTransport() override { end(); }

  Transfer send(std::span<iovec> parts) override {
    Way& way = connection_->to_server;
    if (way.room() == 0) await([&way] { return way.room() > 0 || way.ended || way.dead; });
    if (way.ended || way.dead) return {Outcome::kHungUp};
    if (way.room() == 0) return {Outcome::kNothing};
    const std::size_t most = simulation_.chance.one_in(4) ? simulation_.chance.between(1, way.room()) : way.room();
    std::size_t moved = 0;
    for (const auto& part : parts) {
      const std::span bytes(static_cast<const std::byte*>(part.iov_base), std::min(part.iov_len, most - moved));
      way.bytes += bytes;
      moved += bytes.size();
    }
    simulation_.note("client sends", connection_->id, moved);
    return {Outcome::kMoved, moved};
  }
  Transfer receive(std::span<iovec> parts) override {
    Way& way = connection_->to_client;
    const auto arrived = [this, &way] { return way.readable(now()) > 0 || way.at_end(now()) || shut_; };
    if (!arrived()) await(arrived);
    if (shut_ || way.at_end(now())) {
      return way.reset && !shut_ ? Transfer{Outcome::kFailed, 0, ECONNRESET} : Transfer{Outcome::kHungUp};
    }
    if (way.readable(now()) == 0) return {Outcome::kNothing};
    const std::size_t there = way.readable(now());
    const std::size_t most = simulation_.chance.one_in(2) ? simulation_.chance.between(1, there) : there;
    std::size_t moved = 0;
    for (const auto& part : parts) {
      moved += way.take({static_cast<std::byte*>(part.iov_base), std::min(part.iov_len, most - moved)});
    }
    simulation_.note("client receives", connection_->id, moved);
    return {Outcome::kMoved, moved};
  }
  bool has_input() override {
    const Way& way = connection_->to_client;
    return way.readable(now()) > 0 || way.at_end(now());
  }
  void await_reply(Clock::time_point) override {}
  Event wait(Waker&, milliseconds) override { throw SimulationFailure("clients wait for no waker"); }
  FileDescriptor take_descriptor() override { return {}; }
  void shut() override {
    const auto& [id, client, to_server, to_client, faulty] = *connection_;
    require(shut_ || faulty || leaving_ || to_client.ended, "a client gave up a connection without a fault");
    end();
  }

 private:
  void end() {
    if (std::exchange(shut_, true)) return;
    connection_->to_client.dead = true;
    simulation_.note("client shuts", connection_->id);
    Way& way = connection_->to_server;
    if (way.ended) return;
    way.ended = true;
    if (simulation_.chance.one_in(3)) way.cut(simulation_.chance);
  }
  Time now() const { return simulation_.now(); }
  void await(std::function<bool()> ready) { simulation_.wait(now() + seconds(1), std::move(ready)); }

  Simulation& simulation_;
  const std::shared_ptr<SimulatedConnection> connection_;
  const bool& leaving_;
  bool shut_ = false;
};

// What one client sees of it.
class ClientOfSimulation : public ClientNetwork {
 public:
  ClientOfSimulation(SimulatedNetwork& network, std::uint64_t client) : network_(network), client_(client) {}

  std::unique_ptr<Transport> open(const Address&, milliseconds, const Interrupt&) override {
    network_.simulation().sleep(network_.simulation().chance.duration(milliseconds(1), milliseconds(50)));
    if (!network_.up) throw ConnectionLost("no server listens");
    return std::make_unique<SimulatedTransport>(network_, network_.connect(client_), leaving);
  }
  Time now() override { return network_.simulation().now(); }
  bool wait_until(ConditionVariable&, Mutex& mutex, Time deadline) override REQUIRES(mutex) {
    mutex.unlock();
    try {
      network_.simulation().wait(deadline, [] { return false; });
    } catch (...) {
      mutex.lock();
      throw;
    }
    mutex.lock();
    return false;
  }
  std::uint64_t draw_number() override { return network_.simulation().chance.number() | 1; }

  bool leaving = false;  // the client has no more requests

 private:
  SimulatedNetwork& network_;
  const std::uint64_t client_;
};

}  // namespace headrace::testing
