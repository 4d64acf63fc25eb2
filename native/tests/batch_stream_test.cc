#include "io/batch_stream.h"

#include <doctest/doctest.h>

#include <atomic>
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
    REQUIRE(stream.next(in(10'000)));  // which is ours now, so that nothing else is asked for
    std::this_thread::sleep_for(milliseconds(20));
    CHECK(drawn() == 3);
    REQUIRE(stream.next(in(10'000)));  // the first is given back
    CHECK(eventually([&] { return drawn() == 4; }));
    std::this_thread::sleep_for(milliseconds(20));
    CHECK(drawn() == 4);
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
