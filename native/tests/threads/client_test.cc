#include "io/client.h"

#include <doctest/doctest.h>

#include <array>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io/unix_socket.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("a fetch begins again where the server has dropped the blob's first parts") {
  Served served(small_table(), {.limits = {.max_part_bytes = 1000,
                                           .frame_wait = std::chrono::seconds(1),
                                           .memory_wait = std::chrono::seconds(1)}});
  served.server.parameters().publish("policy", 1, Bytes(2500));
  Client client(to(served.address));
  Bytes blob;
  int begun = 0;
  const auto version = client.fetch("policy", 0, [&](std::size_t size) {
    if (++begun == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3500));  // as if it had been stopped
    blob.resize(size);
    return blob.data();
  });
  CHECK(version == 1);
  CHECK(blob.size() == 2500);
  CHECK(begun == 2);
}

TEST_CASE("every request does the same over a socket as directly") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    CAPTURE(where);
    Served served(small_table(), {}, where);
    Client client(to(served.address));
    CHECK(client.instance() == served.server.instance());
    CHECK(client.signature("replay") == small_signature());
    CHECK(client.insert("replay", chunk_of(10)) == 0);
    CHECK(client.insert("replay", chunk_of(10)) == 10);
    CHECK(served.table->size() == 20);

    Batch batch(8);
    REQUIRE(sample(client, batch, {}));
    for (int i = 0; i < 8; ++i) {
      const auto step = batch.view.key[i] % 10;
      const auto* observation = reinterpret_cast<const float*>(batch.view.observation) + 2 * i;
      const auto* next = reinterpret_cast<const float*>(batch.view.next_observation) + 2 * i;
      CHECK(observation[0] == float(step));
      CHECK(next[1] == -float(step + 1));
      CHECK(reinterpret_cast<const std::int64_t*>(batch.view.action)[i] == std::int64_t(step));
      CHECK(batch.view.reward[i] == float(step) + 0.5f);
      CHECK(batch.view.discount[i] == doctest::Approx(step == 9 ? 0.0 : 0.9));
      CHECK(batch.view.probability[i] == doctest::Approx(1.0 / 20));
      CHECK(batch.view.weight[i] == doctest::Approx(1.0));
    }
    const std::vector<std::uint64_t> keys = {0, 19, 500};
    const std::vector<float> priorities = {2, 3, 4};
    CHECK(client.update_priorities("replay", keys, priorities) == 2);

    CHECK(client.publish("policy", 0, as_bytes("weights")) == 1);
    CHECK(client.fetch("policy", 1) == std::nullopt);
    const auto blob = client.fetch("policy", 0);
    REQUIRE(blob);
    CHECK(blob->first == 1);
    CHECK(as_text(blob->second) == "weights");
    CHECK(client.stats().find("\"inserts\": 20") != std::string::npos);
  }
}

TEST_CASE("many chunks are inserted by one call, in as many requests as they take") {
  auto options = small_table();
  options.capacity = 100'000;
  Served served(options);
  Client client(to(served.address));
  const Bytes small = chunk_of(2);
  const Bytes large = chunk_of(20'000);  // more than one of these is more than one request
  REQUIRE(large.size() > (std::size_t{1} << 19));
  const std::vector<std::span<const std::byte>> chunks = {small, small, large, large, small};
  CHECK(client.insert("replay", chunks) == 40'004);
  CHECK(served.table->stats().inserts == 40'006);
  CHECK(client.insert("replay", small) == 40'006);
  CHECK(client.insert("replay", std::span(chunks).first(0)) == 0);
}

TEST_CASE("messages are drained once, in order, from each mailbox separately") {
  Served served;
  Client client(to(served.address));
  client.put("episodes", as_bytes("one"));
  client.put("timings", as_bytes("t"));
  client.put("episodes", as_bytes(""));
  client.put("episodes", as_bytes("three"));
  const auto messages = client.drain("episodes");
  REQUIRE(messages.size() == 3);
  CHECK(as_text(messages[0]) == "one");
  CHECK(messages[1].empty());
  CHECK(as_text(messages[2]) == "three");
  CHECK(client.drain("episodes").empty());
  client.put("episodes", as_bytes("four"));
  CHECK(client.drain("episodes").size() == 1);
  CHECK(client.drain("timings").size() == 1);
}

TEST_CASE("a drain returns all messages, in as many replies as necessary, and removes them from the server") {
  Served served;
  Client client(to(served.address));
  const auto mailbox = served.server.mailbox("episodes");
  const Bytes message(3 << 20, std::byte{7});
  const std::uint64_t before = served.server.budget().used();  // perhaps with the reply to the client's first request
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 5; ++i) mailbox->put(message);
    const auto messages = client.drain("episodes");
    REQUIRE(messages.size() == 5);  // 75 MiB in all
    CHECK(messages[4] == message);
  }
  CHECK(eventually([&] { return served.server.budget().used() <= before; }));
  mailbox->put(as_bytes("later"));
  Client other(to(served.address));  // as a learner that is started again
  CHECK(other.drain("episodes").size() == 1);
}

TEST_CASE("a client opens, pauses, closes and drops tables") {
  Served served;
  Client client(to(served.address));
  client.insert("replay", chunk_of(10));
  CHECK(client.open_table("replay", small_table(), false) == 10);
  CHECK(client.open_table("replay", small_table(), true) == 0);
  CHECK(client.open_table("other", small_table(), false) == 0);
  client.insert("other", chunk_of(3));

  client.set_state("other", TableState::kClosed);
  CHECK(kind_of([&] { client.insert("other", chunk_of(3)); }) == ErrorKind::kClosed);
  client.set_state("other", TableState::kOpen);
  CHECK(client.insert("other", chunk_of(3)) == 3);
  CHECK(kind_of([&] { client.set_state("nowhere", TableState::kOpen); }) == ErrorKind::kNotFound);

  client.publish("other/policy", 1, Bytes(10));
  CHECK(client.drop("other") == 2);
  CHECK(kind_of([&] { client.signature("other"); }) == ErrorKind::kNotFound);
}

TEST_CASE("a table of another signature under the same name is noticed") {
  Served served;
  Client client(to(served.address));
  client.insert("replay", chunk_of(10));
  Batch batch(4);
  CHECK(sample(client, batch, milliseconds(0)));
  auto options = small_table();
  options.signature = {{"float64", {1}}, {"int64", {}}, 1};
  client.open_table("replay", options, true);
  CHECK(kind_of([&] { sample(client, batch, milliseconds(0)); }) == ErrorKind::kInvalid);
  client.open_table("replay", small_table(), true);
  client.insert("replay", chunk_of(10));
  CHECK(sample(client, batch, milliseconds(0)));
  client.drop("replay");
  Client(to(served.address)).open_table("replay", options, true);
  CHECK(kind_of([&] { sample(client, batch, milliseconds(0)); }) == ErrorKind::kInvalid);
}

TEST_CASE("a claim lasts as long as its client") {
  Served served;
  {
    Client learner(to(served.address));
    learner.claim("run/learner", 1);
    learner.claim("run/learner", 1);
    Client other(to(served.address));
    CHECK(kind_of([&] { other.claim("run/learner", 2); }) == ErrorKind::kRefused);
  }
  CHECK(eventually([&] { return served.server.claims().held().empty(); }));
  Client(to(served.address)).claim("run/learner", 2);
}

TEST_CASE("a reserved claim that is released is free, and one whose connection is lost is not") {
  Served served;
  const auto address = to(served.address);
  {
    Client learner(address);
    learner.claim("run/learner", 1, 7, milliseconds(60'000));
  }
  CHECK(eventually([&] { return served.server.claims().held().empty(); }));
  Client other(address);
  CHECK(kind_of([&] { other.claim("run/learner", 2); }) == ErrorKind::kRefused);
  Client resumed(address);
  resumed.claim("run/learner", 3, 7, milliseconds(60'000));
  resumed.close();
  CHECK(eventually([&] { return !kind_of([&] { other.claim("run/learner", 2); }); }));
}

TEST_CASE("a blob for which there is no memory ends the connection, and the next call makes another") {
  Served served;
  Client client(to(served.address, 10'000));
  client.publish("policy", 0, as_bytes("weights"));
  const auto none = [](std::size_t) -> std::byte* { throw std::bad_alloc(); };
  CHECK_THROWS_AS(client.fetch("policy", 0, none), std::bad_alloc);
  std::array<std::byte, 7> memory;
  std::size_t size = 0;
  CHECK(client.fetch("policy", 0, [&](std::size_t wanted) {
    size = wanted;
    return memory.data();
  }) == 1);
  CHECK(size == memory.size());
  CHECK(as_text(memory) == "weights");
  CHECK(client.reconnections() == 1);
}

TEST_CASE("errors of the server keep their kind, and the connection stays usable") {
  Served served;
  Client client(to(served.address));
  auto chunk = chunk_of(4);
  chunk[0] = std::byte{0};
  CHECK(kind_of([&] { client.insert("replay", chunk); }) == ErrorKind::kChunkRefused);
  CHECK(kind_of([&] { client.insert("replay", Bytes(63)); }) == ErrorKind::kChunkRefused);
  CHECK(kind_of([&] { client.insert("replay", Bytes()); }) == ErrorKind::kChunkRefused);
  CHECK(kind_of([&] { client.insert("nowhere", chunk_of(4)); }) == ErrorKind::kNotFound);
  CHECK(kind_of([&] { client.put(std::string(300, 'x'), {}); }) == ErrorKind::kRefused);
  const std::vector<std::uint64_t> keys = {0};
  CHECK(kind_of([&] { client.update_priorities("replay", keys, {}); }) == ErrorKind::kInvalid);
  Batch batch(4);
  const Signature other{{"float64", {1}}, {"int64", {}}, 1};
  CHECK(kind_of([&] { client.sample("replay", other, batch.view, 0.4, milliseconds(0)); }) == ErrorKind::kInvalid);
  CHECK(client.insert("replay", chunk_of(4)) == 0);
  CHECK(client.reconnections() == 0);
}

TEST_CASE("a large blob arrives complete in both directions") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(small_table(), {}, where);
    Client client(to(served.address));
    Bytes blob(20'000'000);
    for (std::size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    client.publish("policy", 3, blob);
    CHECK(std::ranges::equal(served.server.parameters().fetch("policy")->bytes, blob));
    CHECK(client.fetch("policy", 0)->second == blob);
  }
}

TEST_CASE("frames beyond the limit are refused on either side") {
  const Limits limits{.max_frame_bytes = 4096};
  Served served(small_table(), {.limits = limits});
  auto modest_options = to(served.address);
  modest_options.limits = limits;
  Client modest(modest_options);
  CHECK(kind_of([&] { modest.publish("policy", 0, Bytes(5000)); }) == ErrorKind::kRefused);
  CHECK(kind_of([&] { modest.insert("table", Bytes(5000)); }) == ErrorKind::kChunkRefused);  // no restart helps
  const Bytes large(5000);
  const std::vector<std::span<const std::byte>> chunks = {large};
  CHECK(kind_of([&] { modest.post_chunks("table", chunks, true); }) == ErrorKind::kChunkRefused);
  CHECK(modest.publish("policy", 0, Bytes(100)) == 1);
  served.server.parameters().publish("large", 1, Bytes(5000));
  CHECK(kind_of([&] { modest.fetch("large", 0); }) == ErrorKind::kRefused);
  CHECK(modest.fetch("policy", 0)->second.size() == 100);

  Client careless(to(served.address));
  CHECK(kind_of([&] { careless.publish("policy", 0, Bytes(2'000'000)); }) == ErrorKind::kRefused);
  CHECK(kind_of([&] { careless.stats(); }) == ErrorKind::kClosed);

  Served generous;
  generous.server.parameters().publish("large", 1, Bytes(5000));
  auto small_options = to(generous.address);
  small_options.limits = limits;
  Client small(small_options);
  CHECK(kind_of([&] { small.fetch("large", 0); }) == ErrorKind::kMalformed);
  CHECK(kind_of([&] { small.stats(); }) == ErrorKind::kClosed);
}

TEST_CASE("a sample waits for its inserts, or to its deadline") {
  Served served;
  Client learner(to(served.address));
  Batch batch(4);
  CHECK_FALSE(sample(learner, batch, milliseconds(0)));
  CHECK_FALSE(sample(learner, batch, milliseconds(20)));
  std::jthread actor([&] {
    CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
    Client(to(served.address)).insert("replay", chunk_of(8));
  });
  CHECK(sample(learner, batch, std::nullopt));
}

TEST_CASE("close() of a client ends a call that is under way") {
  Served served;
  Client client(to(served.address, 60'000));
  std::jthread learner([&] {
    Batch batch(4);
    CHECK(kind_of([&] { sample(client, batch, std::nullopt); }) == ErrorKind::kClosed);
  });
  CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
  client.close();
  learner.join();
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
}

TEST_CASE("a client waits for its server to appear") {
  const fixtures::ScratchFolder folder;
  const auto address = "unix:" + folder.file("socket");
  Server server;
  Loop loop(server);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    loop.listen(address);
  });
  CHECK(Client(to(address)).stats().starts_with("{"));
}

TEST_CASE("connecting to a server that accepts but never replies fails at the deadline") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    const auto listeners = listen_on(Address::parse(where));
    const auto address = listeners[0]->address().text();
    std::string what;
    CHECK(kind_of([&] { Client({.address = address, .connect_timeout = milliseconds(200)}); }, &what) ==
          ErrorKind::kSystem);
    CHECK_MESSAGE(what.find(address) != std::string::npos, what);
  }
}

TEST_CASE("an interrupt breaks off the wait for a server") {
  struct Stopped : std::exception {};
  const UnixListener silent(Address::parse("unix:@"));
  ClientOptions options{.address = silent.address().text(), .interrupt = [] { throw Stopped(); }};
  CHECK_THROWS_AS(Client{options}, Stopped);
  options.address = "unix:@headrace-nobody-listens-here";
  CHECK_THROWS_AS(Client{options}, Stopped);
}

TEST_CASE("a blob that is larger than a frame is published and fetched, also an empty one") {
  const Limits limits{.max_frame_bytes = 100'000, .max_part_bytes = 30'000};
  Served served(small_table(), {.limits = limits});
  auto options = to(served.address);
  options.limits = limits;
  Client client(options);
  for (const std::size_t size : {0u, 1u, 30'000u, 30'001u, 1'000'000u}) {
    CAPTURE(size);
    Bytes blob(size);
    for (std::size_t i = 0; i < size; ++i) blob[i] = static_cast<std::byte>(i * 7 + i / 30'000);
    const auto version = client.publish("policy", 0, blob);
    CHECK(client.publish("policy", version, blob) == version);
    const auto fetched = client.fetch("policy", version - 1);
    REQUIRE(fetched);
    CHECK(fetched->first == version);
    CHECK(fetched->second == blob);
    CHECK_FALSE(client.fetch("policy", version));
  }
}
