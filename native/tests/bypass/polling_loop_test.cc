// The polling loop over the user-space stack and frames in memory. Time is what the test says.
#include "bypass/polling_loop.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bypass/memory_ports.h"
#include "bypass/polled_client.h"
#include "bypass/stack.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::testing;
using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t kServerIp = 0x0a090001;
constexpr std::uint32_t kClientIp = 0x0a090002;
constexpr std::uint16_t kPort = 7447;

struct World {
  explicit World(LoopOptions options = {}, std::uint16_t mtu = 1500, TableOptions table_options = small_table())
      : loop(server, std::move(options)), client_side(wire.client_port(), {kClientIp, 24}, mtu) {
    table = server.add_table("replay", std::move(table_options));
    loop.listen(std::make_unique<Interface>(wire.server_port(), Subnet{kServerIp, 24}, mtu), kPort, true);
  }
  ~World() {
    server.close();
    clients.clear();
  }

  PolledClient& add_client() {
    return *clients.emplace_back(std::make_unique<PolledClient>(client_side, kServerIp, kPort));
  }

  void turn(milliseconds step = milliseconds(1)) {
    stack_clock() += step;
    loop.turn(stack_clock());
    client_side.poll();
    for (auto& client : clients) client->turn();
  }

  // True as soon as `condition` holds; false after so many turns.
  bool eventually(auto condition, int turns = 400'000) {
    for (; turns > 0; --turns) {
      if (condition()) return true;
      turn();
    }
    return false;
  }

  // The reply to the only request that is under way.
  Reply ask(PolledClient& client, Bytes request) {
    client.send(std::move(request));
    std::vector<Reply> replies;
    REQUIRE(eventually([&] { return !(replies = client.take_replies()).empty(); }));
    REQUIRE(replies.size() == 1);
    return replies[0];
  }

  Server server;
  std::shared_ptr<Table> table;
  MemoryWire wire;
  PollingLoop loop;
  Interface client_side;
  std::vector<std::unique_ptr<PolledClient>> clients;
};

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 131 >> 3 ^ i);
  return bytes;
}

Bytes publication(std::span<const std::byte> blob) {
  return frame(MessageType::kPublish, "policy", publish_payload(0, blob));
}

Bytes fetch(std::uint64_t request = 1) { return frame(MessageType::kFetch, "policy", fetch_payload(0), request); }

Bytes insert(std::int64_t wait = -1) {
  return frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), wait));
}

// Loses every n-th frame.
auto losing(int n) {
  return [n, count = 0](Frame&) mutable { return ++count % n != 0; };
}

}  // namespace

TEST_CASE("chunks and batches go over the user-space stack") {
  World world;
  auto& client = world.add_client();
  CHECK(world.ask(client, insert()).header.status == kOk);
  CHECK(world.table->stats().size == 8);
  const auto batch = world.ask(client, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 1000)));
  CHECK(batch.header.status == kOk);
  CHECK(batch.body.size() > 4 * 4 * sizeof(float));
  CHECK(world.server.meters().at(0)->peer.starts_with("dpdk 10.9.0.2:"));
}

TEST_CASE("large requests and replies arrive whole, also where frames are lost in both directions") {
  for (const std::uint16_t mtu : {1500, 9000}) {
    for (const int every : {1 << 30, 50, 7}) {
      CAPTURE(mtu);
      CAPTURE(every);
      World world({}, mtu);
      world.wire.to_server->passes = losing(every);
      world.wire.to_client->passes = losing(every + 2);
      auto& client = world.add_client();
      const auto blob = pattern(700'000);
      CHECK(world.ask(client, publication(blob)).header.status == kOk);
      const auto fetched = world.ask(client, fetch());
      CHECK(std::ranges::equal(std::span(fetched.body).subspan(2 * sizeof(std::uint64_t)), blob));
    }
  }
}

TEST_CASE("requests that were sent together are answered in order") {
  World world;
  auto& client = world.add_client();
  for (std::uint64_t i = 1; i <= 300; ++i) client.send(fetch(i));
  std::vector<std::uint64_t> answered;
  CHECK(world.eventually([&] {
    for (const auto& reply : client.take_replies()) answered.push_back(reply.header.request);
    return answered.size() == 300;
  }));
  CHECK(std::ranges::is_sorted(answered));
}

TEST_CASE("an insert that the limiter holds goes on when another connection samples") {
  World world({}, 1500, limited_table());
  auto& writer = world.add_client();
  auto& reader = world.add_client();
  int stored = 0;
  const auto count = [&] { return stored += static_cast<int>(writer.take_replies().size()); };
  for (int i = 0; i < 12; ++i) writer.send(insert());
  world.eventually([&] { return count() == 12; }, 2000);
  REQUIRE(stored < 12);
  while (stored < 12) {
    const auto reply = world.ask(reader, frame(MessageType::kSample, "replay", sample_payload(8, 0.4, 0)));
    REQUIRE(reply.header.status == kOk);
    const int before = stored;
    world.eventually([&] { return count() > before; }, 100);
  }
  CHECK(world.table->stats().size == 96);
}

TEST_CASE("a sample that waits for experience is answered at its deadline") {
  World world;
  auto& client = world.add_client();
  client.send(frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 5000)));
  const auto begin = stack_clock();
  std::vector<Reply> replies;
  REQUIRE(world.eventually([&] { return !(replies = client.take_replies()).empty(); }));
  CHECK(replies[0].header.status == kNothing);
  CHECK(stack_clock() - begin >= milliseconds(5000));
  CHECK(stack_clock() - begin < milliseconds(6000));
}

TEST_CASE("a peer that takes no replies is not served meanwhile, and others are") {
  World world;
  auto& client = world.add_client();
  REQUIRE(world.ask(client, publication(pattern(700'000))).header.status == kOk);
  client.hold_input(true);
  for (std::uint64_t i = 1; i <= 20; ++i) client.send(fetch(i));
  for (int i = 0; i < 2000; ++i) world.turn();
  CHECK(client.take_replies().empty());
  auto& other = world.add_client();
  CHECK(world.ask(other, insert()).header.status == kOk);
  client.hold_input(false);
  std::size_t answered = 0;
  CHECK(world.eventually([&] { return (answered += client.take_replies().size()) == 20; }));
}

TEST_CASE("a peer that closes its connection is forgotten") {
  World world;
  world.add_client();
  CHECK(world.eventually([&] { return world.loop.connections() == 1; }));
  world.clients.clear();
  CHECK(world.eventually([&] { return world.loop.connections() == 0; }));
  CHECK(world.server.meters().empty());
}

TEST_CASE("what a peer sent before it closed or reset its connection is handled, however many turns it takes") {
  bool resets = false;
  SUBCASE("closed") {}
  SUBCASE("reset") { resets = true; }
  World world;
  auto& client = world.add_client();
  Bytes requests;
  for (int i = 0; i < 100; ++i) requests += insert();
  requests += frame(MessageType::kDrop, "replay");
  client.send(std::move(requests));
  REQUIRE(world.eventually([&] { return client.tcp().in_flight() == 0 && world.loop.connections() == 1; }));
  REQUIRE_FALSE(world.server.table_names().empty());
  if (resets) client.tcp().abort();
  world.clients.clear();
  CHECK(world.eventually([&] { return world.loop.connections() == 0; }));
  CHECK(world.server.table_names().empty());
}

TEST_CASE("hundreds of connections are served at once") {
  constexpr int kMany = 400;
  World world;
  REQUIRE(world.ask(world.add_client(), publication(pattern(5'000))).header.status == kOk);
  for (int i = 1; i < kMany; ++i) world.add_client();
  for (auto& client : world.clients) client->send(fetch());
  int served = 0;
  REQUIRE(world.eventually([&] {
    for (auto& client : world.clients) {
      for (const auto& reply : client->take_replies()) served += reply.header.status == kOk;
    }
    return served == kMany;
  }));
  CHECK(world.loop.connections() == kMany);
}

TEST_CASE("a connection beyond the limit is told so and closed") {
  World world({.max_connections = 1});
  auto& first = world.add_client();
  REQUIRE(world.ask(first, insert()).header.status == kOk);
  auto& second = world.add_client();
  std::vector<Reply> replies;
  REQUIRE(world.eventually([&] { return !(replies = second.take_replies()).empty(); }));
  CHECK(replies[0].text().find("limit") != std::string::npos);
  CHECK(world.eventually([&] { return second.closed(); }));
  CHECK(world.ask(first, insert()).header.status == kOk);
}

TEST_CASE("with a token, requests without proof are refused and silent peers are closed") {
  World world({.token = Token(as_bytes("0123456789abcdef"))});
  auto& hasty = world.add_client();
  const auto refusal = world.ask(hasty, insert());
  CHECK(refusal.header.status == status_of(ErrorKind::kRefused));
  CHECK(world.eventually([&] { return hasty.closed(); }));
  auto& silent = world.add_client();
  CHECK(world.eventually([&] { return silent.closed(); }));
}

TEST_CASE("beyond the limit of connections without proof, the oldest is closed") {
  World world({.token = Token(as_bytes("0123456789abcdef")), .max_unproven = 2});
  for (int i = 0; i < 3; ++i) {
    world.add_client();
    for (int turn = 0; turn < 20; ++turn) world.turn();
  }
  CHECK(world.clients[0]->closed());
  CHECK_FALSE(world.clients[1]->closed());
  CHECK_FALSE(world.clients[2]->closed());
}

TEST_CASE("a port that other machines reach requires a token") {
  World world;
  std::optional<ErrorKind> kind;
  try {
    world.loop.listen(std::make_unique<Interface>(MemoryWire().server_port(), Subnet{kServerIp + 1, 24}, 1500), kPort,
                      false);
  } catch (const Error& error) {
    kind = error.kind();
  }
  CHECK(kind == ErrorKind::kRefused);
}

TEST_CASE("time in which the loop was stopped counts against no peer") {
  World world({.limits = {.idle_wait = std::chrono::seconds(5)}});
  auto& client = world.add_client();
  REQUIRE(world.ask(client, insert()).header.status == kOk);
  world.turn(std::chrono::seconds(60));
  for (int i = 0; i < 50; ++i) world.turn();
  CHECK_FALSE(client.closed());
  CHECK(world.ask(client, insert()).header.status == kOk);
}
