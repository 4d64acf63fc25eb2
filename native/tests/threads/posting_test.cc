// Chunks and priorities that a client sends without waiting for the answer.
#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("posted chunks are stored before what the client requests next") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    CAPTURE(where);
    Served served(small_table(), {}, where);
    Client client(to(served.address));
    const Bytes chunk = chunk_of(2);
    const std::vector<std::span<const std::byte>> chunks = {chunk, chunk, chunk};
    for (int i = 0; i < 20; ++i) CHECK(client.post_chunks("replay", chunks, true));
    CHECK(client.stats().find("\"inserts\": 120,") != std::string::npos);
    CHECK(client.post_chunks("replay", chunks, true));
    client.settle();
    CHECK(served.table->stats().inserts == 126);
    CHECK(client.post_chunks("replay", {}, false));
    CHECK(client.post_chunks("replay", chunks, true));
    CHECK(client.insert("replay", chunk) == 132);
  }
}

TEST_CASE("a client takes only so many chunks while the server holds them") {
  Served served;
  Client client(to(served.address));
  const Bytes chunk = chunk_of(2);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  served.table->set_paused(true);
  int taken = 0;
  while (client.post_chunks("replay", chunks, false)) ++taken;
  CHECK(taken == 4);
  CHECK_FALSE(client.post_chunks("replay", chunks, false));
  std::jthread actor([&] {
    CHECK(client.post_chunks("replay", chunks, true));
    client.settle();
  });
  CHECK(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
  CHECK(served.table->size() == 0);
  served.table->set_paused(false);
  actor.join();
  CHECK(served.table->stats().inserts == 10);
}

TEST_CASE("close() of a client ends a call that waits to post") {
  Served served;
  Client client(to(served.address, 60'000));
  const Bytes chunk = chunk_of(2);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  served.table->set_paused(true);
  while (client.post_chunks("replay", chunks, false)) continue;
  std::jthread actor(
      [&] { CHECK(kind_of([&] { client.post_chunks("replay", chunks, true); }) == ErrorKind::kClosed); });
  client.close();
  actor.join();
  CHECK(kind_of([&] { client.settle(); }) == ErrorKind::kClosed);
}

TEST_CASE("the error of a posted chunk is thrown once, by a later call that posts or settles") {
  Served served;
  Client client(to(served.address));
  const Bytes chunk = chunk_of(4);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  CHECK(client.post_chunks("nowhere", chunks, true));
  CHECK(client.fetch("policy", 0) == std::nullopt);
  CHECK(kind_of([&] { client.post_chunks("replay", chunks, true); }) == ErrorKind::kNotFound);
  CHECK(client.post_chunks("replay", chunks, true));
  client.settle();
  served.table->close();
  CHECK(client.post_chunks("replay", chunks, true));
  CHECK(kind_of([&] { client.settle(); }) == ErrorKind::kClosed);
  client.settle();
  CHECK(client.reconnections() == 0);
  CHECK(served.table->stats().inserts == 4);
}

TEST_CASE("posted chunks and posted priorities do not take each other's answers") {
  Served served;
  Client client(to(served.address));
  const Bytes chunk = chunk_of(2);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  const std::vector<std::uint64_t> keys = {0, 1};
  const std::vector<float> priorities = {1, 2};
  for (int i = 0; i < 50; ++i) {
    CHECK(client.post_chunks("replay", chunks, true));
    client.post_priorities("replay", keys, priorities);
  }
  client.settle();
  CHECK(served.table->stats().inserts == 100);
  CHECK(served.table->stats().updates == 100);
}

TEST_CASE("settle() waits for the answers to posted priorities before it throws the error of a chunk") {
  Served served;
  Client client(to(served.address));
  const Bytes chunk = chunk_of(2);
  const std::vector<std::span<const std::byte>> chunks = {chunk};
  REQUIRE(client.insert("replay", chunk) == 0);
  CHECK(client.post_chunks("nowhere", chunks, true));
  const std::vector<std::uint64_t> keys = {0};
  const std::vector<float> priorities = {1};
  for (int i = 0; i < 50; ++i) client.post_priorities("replay", keys, priorities);
  client.post_priorities("elsewhere", keys, priorities);
  std::string what;
  CHECK(kind_of([&] { client.settle(); }, &what) == ErrorKind::kNotFound);
  CHECK(served.table->stats().updates == 50);
  CHECK_MESSAGE(what.find("nowhere") != std::string::npos, what);
  CHECK(kind_of([&] { client.settle(); }, &what) == ErrorKind::kNotFound);
  CHECK_MESSAGE(what.find("elsewhere") != std::string::npos, what);
}

TEST_CASE("posted priorities are applied in order, between other requests") {
  Served served;
  Client client(to(served.address));
  REQUIRE(client.insert("replay", chunk_of(10)) == 0);
  const std::vector<std::uint64_t> keys = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  for (int round = 0; round < 300; ++round) {
    std::vector<float> priorities(10, 0.0f);
    priorities[static_cast<std::size_t>(round % 10)] = 1;
    client.post_priorities("replay", keys, priorities);
    if (round % 70 == 0) CHECK(client.fetch("policy", 0) == std::nullopt);
  }
  client.settle();
  Batch batch(8);
  REQUIRE(sample(client, batch, {}));
  for (int i = 0; i < 8; ++i) CHECK(batch.view.key[i] == 9);
}

TEST_CASE("the error of posted priorities is thrown once, by a later call that posts or settles") {
  Served served;
  Client client(to(served.address));
  const std::vector<std::uint64_t> keys = {0};
  const std::vector<float> priorities = {1};
  client.post_priorities("nowhere", keys, priorities);
  client.post_priorities("replay", keys, priorities);
  CHECK(client.insert("replay", chunk_of(4)) == 0);
  CHECK(kind_of([&] { client.settle(); }) == ErrorKind::kNotFound);
  client.settle();
  int refused = 0;
  for (int i = 0; i < 200; ++i)
    refused += kind_of([&] { client.post_priorities("nowhere", keys, priorities); }) ? 1 : 0;
  CHECK(refused > 0);
  CHECK(kind_of([&] { client.post_priorities("replay", keys, {}); }) == ErrorKind::kInvalid);
  CHECK(client.reconnections() == 0);
}
