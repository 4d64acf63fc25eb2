// A client whose server goes and comes back, or whose answers are lost on the way.
#include <doctest/doctest.h>

#include <atomic>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io_fixtures.h"
#include "lossy_proxy.h"
#include "tagged_chunks.h"

using namespace headrace;
using namespace headrace::testing;
using fixtures::ScratchFolder;

namespace {

// A server that keeps its table in a folder, and its address from one life to the next.
struct Kept {
  Kept(const std::string& folder, const std::string& where) : server({.data = folder}), loop(server) {
    table = server.open_table("replay", uniform_table(), false);
    address = loop.listen(where);
  }
  ~Kept() {
    loop.close();  // as a server dies: the tables are not closed first
    server.close();
  }
  Server server;
  Loop loop;
  std::shared_ptr<Table> table;
  std::string address;
};

bool post(Client& client, std::uint64_t tag) {
  const Bytes chunk = tagged(tag);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  return client.post_chunks("replay", chunks, true);
}

// 0, 1 and so on.
Tags tags_below(std::uint64_t count) {
  Tags tags(count);
  std::iota(tags.begin(), tags.end(), 0);
  return tags;
}

}  // namespace

TEST_CASE("a restarted server has every acknowledged chunk once") {
  const ScratchFolder folder;
  for (const std::string& where : {"unix:" + folder.file("socket"), std::string("tcp://127.0.0.1:0")}) {
    CAPTURE(where);
    const auto data = folder.file(where.substr(0, 3));
    std::optional<Kept> kept;
    kept.emplace(data, where);
    const auto address = kept->address;
    constexpr int kChunks = 60;  // of 4 steps: all of them fit the table
    std::vector<std::uint64_t> keys;
    std::atomic<int> acknowledged = 0;
    std::atomic<int> allowed = 0;
    std::uint64_t instance = 0;
    std::vector<std::string> held;
    std::jthread actor([&] {
      Client client(to(address, 60'000));
      client.claim("run/actor", 5);
      for (int i = 0; i < kChunks; ++i) {
        CHECK(eventually([&] { return i < allowed; }));
        keys.push_back(client.insert("replay", chunk_of(4)));
        ++acknowledged;
      }
      CHECK(client.reconnections() >= 2);
      instance = client.instance();
      held = kept->server.claims().held();
    });
    for (const int many : {5, 25}) {
      allowed = many + 15;
      CHECK(eventually([&] { return acknowledged >= many; }));
      kept.reset();
      kept.emplace(data, address);
    }
    allowed = kChunks;
    actor.join();
    CHECK(instance == kept->server.instance());
    CHECK(held == std::vector<std::string>{"run/actor"});
    CHECK(std::set<std::uint64_t>(keys.begin(), keys.end()).size() == kChunks);
    CHECK(kept->table->size() == 4 * kChunks);
  }
}

TEST_CASE("posted chunks are each stored once, in order, while the server is restarted again and again") {
  const ScratchFolder folder;
  for (const std::string& where : {"unix:" + folder.file("socket"), std::string("tcp://127.0.0.1:0")}) {
    CAPTURE(where);
    const auto data = folder.file(where.substr(0, 3));
    std::optional<Kept> kept;
    kept.emplace(data, where);
    const auto address = kept->address;
    constexpr int kChunks = 60;
    std::atomic<int> posted = 0;
    std::atomic<int> allowed = 0;
    std::jthread actor([&] {
      Client client(to(address, 60'000));
      for (; posted < kChunks; ++posted) {
        CHECK(eventually([&] { return posted < allowed; }));
        CHECK(post(client, static_cast<std::uint64_t>(posted)));
      }
      client.settle();
      CHECK(client.reconnections() >= 2);
    });
    allowed = 15;
    CHECK(eventually([&] { return posted >= 10; }));
    kept.reset();
    kept.emplace(data, address);
    kept->table->set_paused(true);
    allowed = 40;
    CHECK(eventually([&] { return kept->table->stats().insert_blocked_seconds > 0; }));  // some wait there, some here
    kept.reset();
    kept.emplace(data, address);
    allowed = kChunks;
    actor.join();
    CHECK(kept->table->size() == kChunks);
    CHECK(tags_in(*kept->table) == tags_below(kChunks));
  }
}

TEST_CASE("posted chunks whose answers are lost are stored once, in order") {
  Served served(uniform_table());
  Proxy proxy(served.address);
  Client client(to(proxy.address(), 60'000));
  std::uint64_t posted = 0;
  for (int round = 1; round <= 4; ++round) {
    proxy.lose_replies(1);
    for (int i = 0; i < 10; ++i) CHECK(post(client, posted++));
    client.settle();
    CHECK(proxy.lost() == round);
    CHECK(served.table->stats().inserts == posted);
    CHECK(tags_in(*served.table) == tags_below(posted));
  }
}

TEST_CASE("a chunk and a message whose answers are lost are stored once") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address(), 60'000));
  CHECK(client.insert("replay", chunk_of(10)) == 0);
  proxy.lose_replies(1);
  CHECK(client.insert("replay", chunk_of(7)) == 10);
  CHECK(client.insert("replay", chunk_of(5)) == 17);
  CHECK(served.table->size() == 22);
  proxy.lose_replies(1);
  client.put("episodes", as_bytes("one"));
  client.put("episodes", as_bytes("two"));
  proxy.lose_replies(1);
  const auto messages = client.drain("episodes");
  REQUIRE(messages.size() == 2);
  CHECK(as_text(messages[1]) == "two");
  CHECK(client.drain("episodes").empty());
  CHECK(proxy.lost() == 3);
  CHECK(client.reconnections() == 3);
}

TEST_CASE("if connections succeed but replies do not arrive, requests are retried with backoff") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address(), 2000));
  proxy.lose_replies(1'000'000, false, MessageType::kStats);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
  CHECK(proxy.lost() >= 2);
  CHECK(proxy.lost() <= 13);  // after pauses of 5, 10, 20, 40, 80, 160, 320, 500, 500, 500 ms at the least
}

TEST_CASE("a reply that never arrives is requested again on another connection") {
  Served served;
  Proxy proxy(served.address);
  auto options = to(proxy.address(), 60'000);
  options.request_timeout = milliseconds(3000);  // in which a busy machine answers all other requests
  Client client(options);
  proxy.lose_replies(1, true);
  client.put("episodes", as_bytes("one"));
  CHECK(client.drain("episodes").size() == 1);
  CHECK(proxy.lost() == 1);
  CHECK(client.reconnections() == 1);
}

TEST_CASE("without a reconnect_timeout a lost reply is an error") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address()));
  proxy.lose_replies(1);
  std::string what;
  CHECK(kind_of([&] { client.insert("replay", chunk_of(7)); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find(proxy.address()) != std::string::npos, what);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
}

TEST_CASE("a server that falls silent is noticed") {
  Served served;
  Proxy proxy(served.address);
  auto options = to(proxy.address());
  options.request_timeout = milliseconds(3000);  // in which a busy machine answers the handshake
  Client client(options);
  proxy.lose_replies(1, true);
  std::string what;
  CHECK(kind_of([&] { client.stats(); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find("no answer within 3000 ms") != std::string::npos, what);
}

TEST_CASE("a client that was itself stopped does not take its server for silent") {
  struct StoppedOnce : ClientNetwork {
    Clock::time_point now() override { return ClientNetwork::now() + std::chrono::hours(--looks < 0 ? 1 : 0); }
    std::atomic<int> looks = 1'000;
  } network;
  Served served;
  auto options = to(served.address);
  options.network = &network;
  Client client(options);
  Batch batch(4);
  CHECK_FALSE(sample(client, batch, milliseconds(0)));
  network.looks = 8;  // the hour passes while the client waits for the answer
  CHECK_FALSE(sample(client, batch, milliseconds(2000)));
  CHECK(network.looks < 0);
}

TEST_CASE("a client gives up after reconnect_timeout if the server stays unavailable") {
  auto served = std::make_unique<Served>();
  Client client(to(served->address, 150));
  client.stats();
  served.reset();
  std::string what;
  CHECK(kind_of([&] { client.stats(); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find("no server answers") != std::string::npos, what);
}

TEST_CASE("close() ends a call that waits for its server to restart") {
  auto served = std::make_unique<Served>();
  Client client(to(served->address, 3'600'000));
  client.stats();
  served.reset();
  std::atomic<bool> begun = false;
  std::jthread caller([&] {
    begun = true;
    CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
  });
  CHECK(eventually([&] { return begun.load(); }));
  client.close();
}

TEST_CASE("after an interrupt the next call has a new connection") {
  Served served;
  std::atomic<bool> stop = false;
  struct Stopped : std::exception {};
  auto options = to(served.address, 60'000);
  options.interrupt = [&] {
    if (stop.exchange(false)) throw Stopped();
  };
  Client client(options);
  Batch batch(4);
  stop = true;
  CHECK_THROWS_AS(sample(client, batch, std::nullopt), Stopped);
  CHECK(client.insert("replay", chunk_of(8)) == 0);
  CHECK(client.reconnections() == 1);
}

TEST_CASE("a name is kept for a client that connects again to a server that was restarted") {
  const ScratchFolder folder;
  const auto where = "unix:" + folder.file("socket"), data = folder.file("data");
  std::optional<Kept> kept;
  kept.emplace(data, where);
  Client client(to(where, 60'000));
  client.claim("run/learner", 1, 7, milliseconds(60'000));
  kept.reset();
  kept.emplace(data, where);
  Client other(to(where));
  CHECK(kind_of([&] { other.claim("run/learner", 2, 8, milliseconds(60'000)); }) == ErrorKind::kRefused);
  client.stats();
  CHECK(kept->server.claims().held() == std::vector<std::string>{"run/learner"});
}

TEST_CASE("a claim taken by another owner meanwhile is refused, and granted again once it is free") {
  const ScratchFolder folder;
  const auto address = "unix:" + folder.file("socket");
  auto served = std::make_unique<Served>(small_table(), LoopOptions{}, address);
  Client client(to(address, 60'000));
  client.claim("run/learner", 1);
  served.reset();
  Server server;
  Loop loop(server);
  auto rival = server.claims().claim("run/learner", 2);
  loop.listen(address);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kRefused);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kRefused);
  rival.reset();
  CHECK(server.claims().held().empty());
  client.stats();
  CHECK(server.claims().held() == std::vector<std::string>{"run/learner"});
}

TEST_CASE("the error of a client whose server stays away names the address once") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(uniform_table(), {}, where);
    Client client(to(served.address, 50));
    served.close();
    for (int i = 0; i < 2; ++i) {
      std::string what;
      CHECK(kind_of([&] { client.stats(); }, &what) == ErrorKind::kClosed);
      CAPTURE(what);
      const auto first = what.find(served.address);
      CHECK(first != std::string::npos);
      CHECK(what.find(served.address, first + 1) == std::string::npos);
    }
  }
}
