// A server that is killed at any moment leaves every shard as it was at one of its updates.
#include <random>
#include <vector>

#include "core/server.h"
#include "core_fixtures.h"
#include "killed_process.h"

namespace headrace {
namespace {

using fixtures::ScratchFolder;
using fixtures::Tell;

constexpr std::size_t kSize = 100'000;  // parameters, each of which is the number of updates

ShardOptions counting() {
  return {.size = kSize, .optimizer = {.kind = OptimizerOptions::Kind::kMomentum, .learning_rate = 1, .decay = 0.5}};
}

// The value of each parameter and of each moment after that many gradients of -1.
std::pair<float, float> after(std::uint64_t updates) {
  Optimizer twin(counting().optimizer, 1);
  std::vector<float> value(1), gradient(1, -1);
  for (std::uint64_t i = 0; i < updates; ++i) twin.apply(value, gradient);
  return {value[0], twin.data()[0]};
}

// Pushes for ever, and tells after each which version it was given.
void push_for_ever(const std::string& data, const Tell& tell) {
  Server server({.data = data, .shard_save_period = std::chrono::milliseconds(1)});
  const std::vector<float> initial(kSize), gradient(kSize, -1);
  const auto shard = server.shards().open("run/model/0", counting(), false, std::as_bytes(std::span(initial)));
  while (tell(shard->push({.base_version = shard->version()}, std::as_bytes(std::span(gradient))).version)) {
  }
}

TEST_CASE("shard: killed at any moment, it continues from one of its updates") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  std::mt19937 random(7);
  std::uint64_t lost = 0, version = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    CAPTURE(round);
    const auto work = [&](const Tell& tell) { push_for_ever(data, tell); };
    const auto acknowledged = fixtures::run_until_killed(work, 0, 5 + random() % 20, random() % 500);
    Server server({.data = data});
    const auto shard = server.shards().find("run/model/0");
    const auto stats = shard->stats();
    CHECK(acknowledged > version);
    CHECK(stats.version >= acknowledged);
    CHECK(stats.lost >= lost);
    std::vector<float> state(2 * kSize);
    const auto steps = shard->state(std::as_writable_bytes(std::span(state)));
    CHECK(steps + stats.lost <= stats.version);  // a start that lost updates is a version, too
    CHECK(steps + stats.lost + round >= stats.version);
    const auto [value, moment] = after(steps);
    CHECK(std::vector(state.begin(), state.begin() + kSize) == std::vector<float>(kSize, value));
    CHECK(std::vector(state.begin() + kSize, state.end()) == std::vector<float>(kSize, moment));
    lost = stats.lost;
    version = stats.version;
  }
}

}  // namespace
}  // namespace headrace
