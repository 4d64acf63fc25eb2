// How long other connections wait while one makes a long request. The figure is a share of that request's own time, the
// smallest of several rounds, so that a busy machine does not decide it. Shorter requests are in session_turns_test.cc,
// which counts turns.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "core/chunk_writer.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kRounds = 20;
constexpr double kAllowed = 0.6;  // without turns it is near 1

// The longest that `probe` takes while `request` runs, as a share of the time that `request` takes.
double longest_wait(const std::function<void()>& request, const std::function<void()>& probe) {
  double best = 1e9;
  for (int round = 0; round < kRounds && best > kAllowed; ++round) {
    std::atomic<bool> started = false, done = false;
    double longest = 0;
    std::jthread prober([&] {
      while (!done) {
        const auto begin = Clock::now();
        probe();
        if (started) longest = std::max(longest, Seconds(Clock::now() - begin).count());
        started = true;
      }
    });
    const bool probes = eventually([&] { return started.load(); });
    if (!probes) done = true;  // or the prober would be waited for without end
    REQUIRE(probes);
    const auto begin = Clock::now();
    request();
    const double taken = Seconds(Clock::now() - begin).count();
    done = true;
    prober.join();
    best = std::min(best, longest / taken);
  }
  return best;
}

constexpr std::size_t kFrameBytes = 1 << 20;

TableOptions large_frames() {
  auto options = small_table();
  options.signature = {{"uint8", {kFrameBytes}}, {"int64", {}}, 1};
  options.capacity = 8;
  options.capacity_bytes = 32 << 20;
  return options;
}

Bytes large_chunk() {
  ChunkWriter writer({.signature = large_frames().signature, .n_step = 1, .discount = 0.9, .chunk_steps = 8});
  const std::vector<std::uint8_t> observation(kFrameBytes, 7);
  writer.start(observation.data());
  for (std::int64_t step = 0; step < 8; ++step) writer.append(&step, 0.5f, observation.data(), step == 7, false);
  return writer.take().at(0);
}

}  // namespace

TEST_CASE("a large batch does not hold up another connection's") {
  Served served;
  served.server.add_table("large", large_frames())->try_insert(large_chunk());
  served.table->try_insert(chunk_of(8));
  constexpr std::uint32_t B = 96;  // 192 MiB
  const auto signature = large_frames().signature;
  HugeArray<std::byte> block(block_bytes(signature, B));
  const auto view = lay_out(signature, B, block.data());
  Client learner(to(served.address)), other(to(served.address));
  Batch small(4);
  CHECK(longest_wait([&] { learner.sample("large", signature, view, 0.4, std::nullopt); },
                     [&] { sample(other, small, std::nullopt); }) < kAllowed);
}

TEST_CASE("publishing a large blob does not hold up another connection") {
  Served served;
  const Bytes blob(200 << 20, std::byte{7});
  Client learner(to(served.address)), other(to(served.address));
  CHECK(longest_wait([&] { learner.publish("policy", 0, blob); }, [&] { other.fetch("news", 0); }) < kAllowed);
}
