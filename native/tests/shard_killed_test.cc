// A server that is killed at any moment leaves every shard as it was at one of its updates.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <vector>

#include "core/server.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::ScratchFolder;

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

// Pushes for ever, and says after each which version it was given.
[[noreturn]] void push_for_ever(const std::string& data, int pipe) {
  try {
    Server server({.data = data, .shard_save_period = std::chrono::milliseconds(1)});
    const std::vector<float> initial(kSize), gradient(kSize, -1);
    const auto shard = server.shards().open("run/model/0", counting(), false, std::as_bytes(std::span(initial)));
    for (;;) {
      const auto result = shard->push({.base_version = shard->version()}, std::as_bytes(std::span(gradient)));
      if (write(pipe, &result.version, sizeof(result.version)) != sizeof(result.version)) break;
    }
  } catch (const std::exception&) {
  }
  _exit(1);  // which its parent will notice
}

// Forks such a process and kills it after `count` updates and an instant longer; the last version it acknowledged.
std::uint64_t push_until_killed(const std::string& data, unsigned count, useconds_t longer) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    push_for_ever(data, ends[1]);
  }
  close(ends[1]);
  std::uint64_t last = 0, acknowledged = 0;
  const auto next = [&] { return read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged); };
  for (unsigned i = 0; i < count && next(); ++i) last = acknowledged;
  usleep(longer);
  kill(child, SIGKILL);
  while (next()) last = acknowledged;  // what was in the pipe
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  close(ends[0]);
  return last;
}

TEST_CASE("shard: killed at any moment, it continues from one of its updates") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  std::mt19937 random(7);
  std::uint64_t lost = 0, version = 0;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    CAPTURE(round);
    const auto acknowledged = push_until_killed(data, 5 + random() % 20, random() % 500);
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
