// Named after the race: inserts that evict what samplers are reading.
#include <atomic>
#include <thread>

#include "core/batch_ahead.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::PlainChunk;
using fixtures::small_signature;
using fixtures::soon;

// Every row, action and reward of a chunk carries its tag: a torn batch would mix them.
void check_untorn(const Buffers& buffers) {
  for (std::size_t i = 0; i < buffers.key.size(); ++i) {
    const auto observation = Buffers::value<std::array<float, 2>>(buffers.observation, i);
    const auto next = Buffers::value<std::array<float, 2>>(buffers.next_observation, i);
    const auto action = static_cast<float>(Buffers::value<std::int32_t>(buffers.action, i));
    REQUIRE(next[0] == observation[0]);
    REQUIRE(next[1] == observation[1] + 1);
    REQUIRE(action == observation[0] + observation[1]);
    REQUIRE(buffers.reward[i] == action);
  }
}

TEST_CASE("race: inserts overwrite the ring under samplers and updates") {
  for (const Sampler sampler : {Sampler::kPrioritized, Sampler::kUniform}) {
    // Few chunks: nearly every batch pins the oldest, and every insert must wait for it.
    Table table({.signature = small_signature(), .capacity = 300, .sampler = sampler, .seed = 2});
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int actor = 0; actor < 2; ++actor) {
      threads.emplace_back([&, actor] {
        std::mt19937 random(static_cast<unsigned>(actor));
        for (int i = 0; i < 2000; ++i) {
          const auto chunk = PlainChunk::of(1 + random() % 60, 1, static_cast<float>(random() % 100'000));
          REQUIRE(table.insert(chunk.bytes(small_signature()), soon()));
        }
      });
    }
    std::vector<std::thread> readers;
    for (int reader = 0; reader < 2; ++reader) {
      readers.emplace_back([&] {
        Buffers buffers(small_signature(), 64);
        const std::vector<float> priorities(64, 2);
        while (!stop) {
          if (!table.sample(buffers.view, 0.4, soon())) continue;
          check_untorn(buffers);
          table.update_priorities(buffers.key, priorities);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    stop = true;
    for (auto& thread : readers) thread.join();
    const TableStats stats = table.stats();
    CHECK(stats.inserts == stats.evicted + stats.size);
    CHECK(stats.updates + stats.dropped_updates == stats.samples);
  }
}

TEST_CASE("race: a limiter between an actor and a learner, while wakers are added and removed") {
  Table table({.signature = small_signature(),
               .capacity = 500,
               .limiter = {.samples_per_insert = 4, .tolerance = 200, .min_size = 50},
               .seed = 2});
  constexpr int kChunks = 400;
  std::atomic<int> woken = 0;
  std::thread actor([&] {
    const auto chunk = PlainChunk::of(20, 1).bytes(small_signature());
    for (int i = 0; i < kChunks; ++i) REQUIRE(table.insert(chunk, soon()));
  });
  std::thread loop([&] {
    for (int i = 0; i < 200; ++i) table.remove_waker(table.add_waker([&] { ++woken; }));
  });
  // Warm-up 60 transitions in, 4 samples for each of the rest.
  Buffers buffers(small_signature(), 64);
  for (int drawn = 0; drawn + 64 <= (kChunks * 20 - 60) * 4; drawn += 64)
    REQUIRE(table.sample(buffers.view, 0.4, soon()));
  actor.join();
  loop.join();
  CHECK(table.stats().samples_per_insert == doctest::Approx(4).epsilon(0.02));
}

}  // namespace
}  // namespace headrace
