// Clients of the polling loop over the user-space stack and frames in memory, in real time: the server has a thread.
#include "bypass/client_stack.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bypass/memory_ports.h"
#include "bypass/polling_loop.h"
#include "io/client_connection.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::testing;

namespace {

const PortAddress kAddress = PortAddress::parse("dpdk:memif,socket=/nowhere,ip=10.9.0.1/24,mtu=1500");

// The stack's clock, which goes with the real one. Under the stack's mutex.
Deadline now() {
  static const auto base = stack_clock() - std::chrono::steady_clock::now();
  return stack_clock() = std::max(stack_clock(), std::chrono::steady_clock::now() + base);
}

struct World {
  World() : stack(std::make_unique<Ports>(*this), now) { start(); }
  ~World() {
    stop();
    server.close();
  }

  void start() {
    const LockGuard lock(stack_mutex);
    loop.emplace(server, LoopOptions());
    loop->listen(std::make_unique<Interface>(wire.server_port(), kAddress.server_subnet(0), kAddress.mtu),
                 kAddress.tcp_port, true);
    ended = false;
    thread = std::thread([this] {
      while (!ended) {
        {
          const LockGuard turn(stack_mutex);
          loop->turn(now());
          loop->watch();
        }
        std::this_thread::yield();
      }
    });
  }

  void stop() {
    if (!thread.joinable()) return;
    ended = true;
    thread.join();
    const LockGuard lock(stack_mutex);
    loop.reset();
  }

  // As Link does: on a busy machine an attempt may fail.
  std::unique_ptr<ClientConnection> connect(Interrupt interrupt = {}) {
    for (const auto deadline = in(20'000);;) {
      try {
        auto transport = stack.connect(kAddress, milliseconds(20'000), interrupt);
        auto connection = std::make_unique<ClientConnection>(std::move(transport), ClientOptions(), interrupt);
        connection->shake_hands(milliseconds(20'000));
        return connection;
      } catch (const ConnectionLost&) {
        if (std::chrono::steady_clock::now() >= deadline) throw;
      }
    }
  }

  std::size_t connections() {
    const LockGuard lock(stack_mutex);
    return loop->connections();
  }

  void set_connected(bool connected) {
    const LockGuard lock(stack_mutex);
    *wire.connected = connected;
  }

  struct Ports : ClientPorts {
    explicit Ports(World& world) : world(world) {}
    Link open(const PortAddress& address) override {
      ++world.opened;
      const std::shared_ptr<const void> claim(
          &world, [](const void* held) { ++const_cast<World*>(static_cast<const World*>(held))->closed; });
      return {claim, world.wire.client_port(), address.client_subnet(0), address.server_subnet(0).ip};
    }
    World& world;
  };

  std::atomic<int> opened = 0;
  std::atomic<int> closed = 0;
  Server server;
  MemoryWire wire;
  std::optional<PollingLoop> loop;
  std::atomic<bool> ended = false;
  std::thread thread;
  ClientStack stack;
};

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3 ^ i);
  return bytes;
}

auto losing(int n) {
  return [n, count = 0](Frame&) mutable { return ++count % n != 0; };
}

void publish(ClientConnection& connection, std::span<const std::byte> blob) {
  const auto head = numbers(std::uint64_t{0}, std::uint64_t{blob.size()}, std::uint64_t{0});
  const auto reply = connection.request(MessageType::kPublish, "policy", head, std::span(&blob, 1));
  connection.receive_number<std::uint64_t>(reply);
}

Bytes fetch(ClientConnection& connection) {
  const auto body = connection.receive_body(connection.request(MessageType::kFetch, "policy", fetch_payload(0)));
  return {body.begin() + 2 * sizeof(std::uint64_t), body.end()};
}

// That no reply comes to, as long as there is no experience.
void ask_for_a_batch(ClientConnection& connection) {
  connection.send(MessageType::kSample, "replay", sample_payload(4, 0.4, 3'600'000));
}

}  // namespace

TEST_CASE("large requests and replies arrive whole, also where frames are lost in both directions") {
  for (const int every : {1 << 30, 50, 7}) {
    CAPTURE(every);
    World world;
    const auto connection = world.connect();
    {
      const LockGuard lock(stack_mutex);
      world.wire.to_server->passes = losing(every);
      world.wire.to_client->passes = losing(every + 2);
    }
    const auto blob = pattern(150'000);
    publish(*connection, blob);
    CHECK(fetch(*connection) == blob);
  }
}

TEST_CASE("connections of several threads share a link") {
  World world;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const auto connection = world.connect();
      const auto blob = pattern(20'000);
      for (int turn = 0; turn < 20; ++turn) {
        publish(*connection, blob);
        if (fetch(*connection) == blob) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 80);
  CHECK(world.opened == 1);
}

TEST_CASE("a connection that another thread shuts ends the wait for a reply, and the server forgets it") {
  World world;
  world.server.add_table("replay", small_table());
  const auto connection = world.connect();
  ask_for_a_batch(*connection);
  std::thread closer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    connection->shut();
  });
  CHECK(kind_of([&] { connection->receive(MessageType::kSample, milliseconds(3'600'000)); }) == ErrorKind::kClosed);
  closer.join();
  CHECK(eventually([&] { return world.connections() == 0; }));
}

TEST_CASE("an interrupt ends a wait") {
  World world;
  world.server.add_table("replay", small_table());
  bool interrupts = false;
  const auto connection = world.connect([&] {
    if (interrupts) throw 7;
  });
  ask_for_a_batch(*connection);
  interrupts = true;
  CHECK_THROWS_AS(connection->receive(MessageType::kSample, milliseconds(3'600'000)), int);
  CHECK_FALSE(connection->is_open());
}

TEST_CASE("a thread waits for a reply and for a waker at once") {
  World world;
  const auto connection = world.connect();
  Waker waker;
  using Event = Transport::Event;
  CHECK(connection->wait(waker, milliseconds(5)) == Event::kNothing);
  waker.poke();
  CHECK(connection->wait(waker, milliseconds(20'000)) == Event::kWoken);
  std::thread poker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    waker.poke();
  });
  CHECK(connection->wait(waker, milliseconds(-1)) == Event::kWoken);
  poker.join();
  connection->send(MessageType::kStats, "", {});
  CHECK(connection->wait(waker, milliseconds(20'000)) == Event::kInput);
  connection->receive_body(connection->receive(MessageType::kStats));
  connection->shut();
  CHECK(connection->wait(waker, milliseconds(20'000)) == Event::kInput);
}

TEST_CASE("what was sent arrives although the connection is closed at once") {
  World world;
  std::vector<std::unique_ptr<ClientConnection>> connections;
  for (int i = 0; i < 5; ++i) connections.push_back(world.connect());
  {
    const LockGuard lock(stack_mutex);
    world.wire.to_server->passes = losing(5);
  }
  for (auto& connection : connections) {
    connection->send(MessageType::kPut, "reports", put_payload("message"));
    connection.reset();
  }
  std::size_t arrived = 0;
  CHECK(eventually([&] { return (arrived += world.server.mailbox("reports")->drain().size()) == 5; }));
}

TEST_CASE("a link whose server is gone ends its connections, and the next one opens another") {
  World world;
  world.server.add_table("replay", small_table());
  const auto connection = world.connect();
  ask_for_a_batch(*connection);
  world.set_connected(false);
  CHECK(kind_of([&] { connection->receive(MessageType::kSample, milliseconds(3'600'000)); }) == ErrorKind::kClosed);
  CHECK(world.closed == 1);
  CHECK(kind_of([&] { world.stack.connect(kAddress, milliseconds(20), {}); }) == ErrorKind::kClosed);
  CHECK(world.closed == 2);
  world.stop();
  world.set_connected(true);
  world.start();
  publish(*world.connect(), pattern(1000));
  CHECK(world.opened == 3);
}

TEST_CASE("a server forgets the connections of a link whose client is gone") {
  World world;
  const auto connection = world.connect();
  CHECK(world.connections() == 1);
  world.set_connected(false);
  CHECK(eventually([&] { return world.connections() == 0; }));
}

TEST_CASE("a link that no connection uses is given back") {
  World world;
  world.connect();
  CHECK(eventually([&] { return world.closed == 1; }));
}

TEST_CASE("a server that refuses connections, or does not answer, is no error yet") {
  World world;
  auto elsewhere = kAddress;
  elsewhere.tcp_port = 80;
  CHECK(kind_of([&] { world.stack.connect(elsewhere, milliseconds(20'000), {}); }) == ErrorKind::kClosed);
  CHECK(eventually([&] { return world.closed == 1; }));
  world.stop();
  CHECK(kind_of([&] { world.stack.connect(kAddress, milliseconds(50), {}); }) == ErrorKind::kClosed);
}
