#include "io/batch_stream.h"

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::uint32_t kBatch = 8;

void fill(Table& table) {
  for (int i = 0; i < 5; ++i) table.insert(chunk_of(10), never());
}

BatchStream stream_of(const std::string& address, std::size_t credit = 4, int reconnect_ms = 0) {
  return BatchStream(to(address, reconnect_ms), "replay", kBatch, credit, 0.4);
}

}  // namespace

TEST_CASE("batches are those that the table would have given, in the order drawn") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    CAPTURE(where);
    Served served(small_table(), {}, where);
    Table twin(small_table());
    fill(*served.table);
    fill(twin);
    auto stream = stream_of(served.address);
    CHECK(stream.signature() == small_signature());
    CHECK(stream.shared() == where.starts_with("unix"));
    Batch expected(kBatch);
    for (int i = 0; i < 50; ++i) {
      const auto batch = stream.next(in(10'000));
      REQUIRE(batch);
      REQUIRE(twin.try_sample(expected.view, 0.4));
      CHECK(same(batch->view, expected.view));
      CHECK(reinterpret_cast<std::uintptr_t>(batch->view.observation) % 64 == 0);
    }
  }
}

TEST_CASE("no more batches are drawn ahead than the credit") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(small_table(), {}, where);
    fill(*served.table);
    auto stream = stream_of(served.address, 3);
    const auto drawn = [&] { return served.table->stats().samples / kBatch; };
    REQUIRE(eventually([&] { return drawn() == 3; }));
    for (std::uint64_t taken = 1; taken <= 20; ++taken) {
      REQUIRE(stream.next(in(10'000)));
      CHECK(eventually([&] { return drawn() > taken; }));  // one is there for the next call
      std::this_thread::sleep_for(milliseconds(2));
      CHECK(drawn() <= taken + 2);  // the one that is ours now lies in memory that nothing is drawn into
    }
  }
}

TEST_CASE("the same buffers are reused, except the one in use") {
  Served served;
  fill(*served.table);
  auto stream = stream_of(served.address, 2);
  std::set<std::size_t> places;
  std::uint64_t memory = 0;
  Bytes copy;
  for (int i = 0; i < 20; ++i) {
    const auto batch = stream.next(in(10'000));
    REQUIRE(batch);
    places.insert(batch->index);
    memory = batch->memory;
    const auto* keys = batch->view.key;
    const std::vector<std::uint64_t> before(keys, keys + kBatch);
    std::this_thread::sleep_for(milliseconds(1));
    CHECK(std::vector<std::uint64_t>(keys, keys + kBatch) == before);
  }
  CHECK(places == std::set<std::size_t>{0, 1});
  CHECK(memory == 0);
}

TEST_CASE("a batch waits for its inserts, or the call for its deadline") {
  Served served;
  auto stream = stream_of(served.address);
  CHECK_FALSE(stream.next(in(0)));
  CHECK_FALSE(stream.next(in(20)));
  std::jthread actor([&] { Client(to(served.address)).insert("replay", chunk_of(8)); });
  CHECK(stream.next(never()));
}

TEST_CASE("priorities are sent with the next request, and apply to what is drawn after them") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    CAPTURE(where);
    Served served(small_table(), {}, where);
    fill(*served.table);
    auto stream = stream_of(served.address, 3);
    std::vector<std::uint64_t> keys(50);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
    std::vector<float> priorities(50, 0.0f);
    priorities[17] = -2.5f;  // a TD error
    for (int i = 0; i < 20; ++i) {
      REQUIRE(stream.next(in(10'000)));
      stream.post_priorities(keys, priorities);
    }
    for (int i = 0; i < 3; ++i) REQUIRE(stream.next(in(10'000)));  // drawn before, perhaps
    const auto batch = stream.next(in(10'000));
    REQUIRE(batch);
    for (std::uint32_t i = 0; i < kBatch; ++i) CHECK(batch->view.key[i] == 17);
    CHECK(kind_of([&] { stream.post_priorities(keys, {}); }) == ErrorKind::kInvalid);
  }
}

TEST_CASE("priorities of large batches and batches on their way do not wait for each other") {
  Served served(small_table(), {}, "tcp://127.0.0.1:0");
  fill(*served.table);
  ClientOptions options = to(served.address);
  options.request_timeout = milliseconds(20'000);
  constexpr std::size_t kLarge = 65536;
  BatchStream stream(options, "replay", kLarge, 8, 0.4);
  const std::vector<float> priorities(kLarge, 1.0f);
  for (int i = 0; i < 16; ++i) {
    const auto batch = stream.next(in(10'000));
    REQUIRE(batch);
    stream.post_priorities({batch->view.key, kLarge}, priorities);
  }
}

TEST_CASE("priorities that the server refuses end the stream with its error") {
  Served served;
  fill(*served.table);
  auto stream = stream_of(served.address);
  const std::vector<std::uint64_t> keys = {0};
  const std::vector<float> priorities = {std::numeric_limits<float>::infinity()};
  stream.post_priorities(keys, priorities);
  std::optional<ErrorKind> kind;
  CHECK(eventually([&] { return (kind = kind_of([&] { stream.next(in(10'000)); })).has_value(); }));
  CHECK(kind == ErrorKind::kInvalid);
  CHECK(kind_of([&] { stream.post_priorities(keys, priorities); }) == ErrorKind::kInvalid);
}

TEST_CASE("received batches are returned before the error that ended the stream") {
  Served served;
  fill(*served.table);
  auto stream = stream_of(served.address, 3);
  REQUIRE(eventually([&] { return served.table->stats().samples == 3 * kBatch; }));
  served.table->close();
  REQUIRE(stream.next(in(10'000)));
  CHECK(kind_of([&] {
          while (stream.next(in(10'000))) continue;
        }) == ErrorKind::kClosed);
  CHECK(kind_of([&] { stream.next(in(10'000)); }) == ErrorKind::kClosed);
}

TEST_CASE("a stream that ended holds no memory on the server") {
  Served served;
  fill(*served.table);
  auto stream = stream_of(served.address, 3);
  REQUIRE(eventually([&] { return served.table->stats().samples == 3 * kBatch; }));
  CHECK(served.loop.connections() == 1);
  served.table->close();
  CHECK(kind_of([&] {
          while (stream.next(in(10'000))) continue;
        }) == ErrorKind::kClosed);
  CHECK(eventually([&] { return served.loop.connections() == 0; }));
}

TEST_CASE("mistakes are refused when the stream is made") {
  Served served;
  CHECK(kind_of([&] { stream_of(served.address, 1); }) == ErrorKind::kInvalid);
  CHECK(kind_of([&] { stream_of(served.address, 65); }) == ErrorKind::kInvalid);
  CHECK(kind_of([&] { BatchStream(to(served.address), "nowhere", kBatch, 2, 0.4); }) == ErrorKind::kNotFound);
  CHECK(kind_of([&] {
          BatchStream({.address = "unix:@headrace-nobody", .connect_timeout = milliseconds(0)}, "replay", kBatch, 2,
                      0.4);
        }) == ErrorKind::kSystem);
}

TEST_CASE("close() ends a wait") {
  Served served;
  auto stream = stream_of(served.address);
  std::jthread learner([&] { CHECK(kind_of([&] { stream.next(never()); }) == ErrorKind::kClosed); });
  CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
  stream.close();
}

TEST_CASE("an interrupt ends next(), and the stream continues") {
  Served served;
  struct Stopped : std::exception {};
  std::atomic<bool> stop = false;
  auto options = to(served.address);
  options.interrupt = [&] {
    if (stop.exchange(false)) throw Stopped();
  };
  BatchStream stream(options, "replay", kBatch, 2, 0.4);
  stop = true;
  CHECK_THROWS_AS(stream.next(never()), Stopped);
  fill(*served.table);
  CHECK(stream.next(in(10'000)));
}

TEST_CASE("a stream continues after its server was restarted") {
  const fixtures::ScratchFolder folder;
  for (const std::string& where : {"unix:" + folder.file("socket"), std::string("tcp://127.0.0.1:0")}) {
    CAPTURE(where);
    auto served = std::make_unique<Served>(small_table(), LoopOptions{}, where);
    const auto address = served->address;
    fill(*served->table);
    auto stream = stream_of(address, 3, 60'000);
    const auto first = stream.next(in(10'000));
    REQUIRE(first);
    const std::vector<std::uint64_t> keys(first->view.key, first->view.key + kBatch);
    served->loop.close();  // as a server dies: the tables are not closed first
    served.reset();
    // What lies in the old memory stays readable.
    CHECK(std::vector<std::uint64_t>(first->view.key, first->view.key + kBatch) == keys);
    served = std::make_unique<Served>(small_table(), LoopOptions{}, address);
    fill(*served->table);
    std::set<std::uint64_t> memories;
    for (int i = 0; i < 20; ++i) {
      const auto batch = stream.next(in(20'000));
      REQUIRE(batch);
      memories.insert(batch->memory);
    }
    CHECK(memories.contains(1));
    CHECK_FALSE(memories.contains(2));
  }
}

TEST_CASE("batches from before a restart do not add to the credit after it") {
  const fixtures::ScratchFolder folder;
  const auto address = "unix:" + folder.file("socket");
  auto served = std::make_unique<Served>(small_table(), LoopOptions{}, address);
  const auto drawn = [&] { return served->table->stats().samples / kBatch; };
  fill(*served->table);
  auto stream = stream_of(address, 3, 60'000);
  REQUIRE(stream.next(in(10'000)));
  REQUIRE(eventually([&] { return drawn() >= 3; }));
  served->loop.close();
  served.reset();
  served = std::make_unique<Served>(small_table(), LoopOptions{}, address);
  fill(*served->table);
  REQUIRE(eventually([&] { return drawn() == 3; }));
  std::optional<BatchStream::Batch> batch;
  do {
    batch = stream.next(in(10'000));
    REQUIRE(batch);
  } while (batch->memory == 0);
  for (std::uint64_t taken = 1; taken <= 10; ++taken) {
    std::this_thread::sleep_for(milliseconds(2));
    CHECK(drawn() <= taken + 2);
    REQUIRE(stream.next(in(10'000)));
  }
}
