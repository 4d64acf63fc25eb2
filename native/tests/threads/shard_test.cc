#include "core/shard.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "core/shards.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Plain descent by 0.5 of the gradient, whose results are exact.
ShardOptions descent(std::size_t size, StalenessPolicy policy = StalenessPolicy::kAccept) {
  return {.size = size, .policy = policy, .optimizer = {.kind = OptimizerOptions::Kind::kSgd, .learning_rate = 0.5}};
}

struct Fixture {
  explicit Fixture(const ShardOptions& options, std::vector<float> initial)
      : shard(options, std::as_bytes(std::span(initial)), budget, 0) {}

  PushResult push(std::vector<float> gradient, PushedGradient from = {}) {
    return shard.push(from, std::as_bytes(std::span(gradient)));
  }
  std::vector<float> values() {
    std::vector<float> found(shard.options().size);
    REQUIRE(shard.fetch(0, -1, std::as_writable_bytes(std::span(found))));
    return found;
  }
  // As a worker, which goes on from there.
  std::uint64_t fetch(std::uint64_t worker) {
    std::vector<float> found(shard.options().size);
    return shard.fetch(worker, -1, std::as_writable_bytes(std::span(found))).value();
  }

  MemoryBudget budget;
  Shard shard;
};

TEST_CASE("shard: gradients are applied, counted and timed") {
  Fixture fixture(descent(3), {1, 2, 3});
  const auto result = fixture.push({2, 0, -2});
  CHECK(result.version == 1);
  CHECK(result.staleness == 0);
  CHECK(result.verdict == Verdict::kAccepted);
  CHECK(fixture.values() == std::vector<float>{0, 2, 4});
  CHECK(fixture.push({1, 1, 1}, {.base_version = 1}).version == 2);
  CHECK(fixture.values() == std::vector<float>{-0.5f, 1.5f, 3.5f});
  const auto stats = fixture.shard.stats();
  CHECK(stats.version == 2);
  CHECK(stats.accepted == 2);
  CHECK(stats.staleness[0] == 2);
  CHECK(stats.apply_seconds > 0);
  check_error(ErrorKind::kRefused, "gradient of 8 bytes: 12 required", [&] { fixture.push({1, 1}); });
}

TEST_CASE("shard: nothing is fetched if nothing is newer") {
  Fixture fixture(descent(1), {1});
  std::vector<float> found = {7};
  const auto room = std::as_writable_bytes(std::span(found));
  CHECK(fixture.shard.fetch(0, -1, room) == 0);
  CHECK(fixture.shard.fetch(0, 0, room) == std::nullopt);
  fixture.push({2});
  CHECK(found[0] == 1);
  CHECK(fixture.shard.fetch(0, 0, room) == 1);
  CHECK(found[0] == 0);
}

TEST_CASE("shard: staleness is the number of updates by others since the fetch") {
  Fixture fixture(descent(1), {0});
  for (std::uint64_t i = 0; i < 5; ++i) fixture.push({1}, {.base_version = i});
  CHECK(fixture.push({1}, {.base_version = 1, .own_updates = 1}).staleness == 3);
  CHECK(fixture.push({1}, {.base_version = 6}).staleness == 0);
  CHECK(fixture.shard.stats().staleness[3] == 1);
  for (std::uint64_t i = 7; i < 100; ++i) fixture.push({1}, {.base_version = i});
  fixture.push({1}, {.base_version = 0});
  CHECK(fixture.shard.stats().staleness[64] == 1);  // 100, which is 64 or more
}

TEST_CASE("shard: a worker whose parameters were lost with the server's disk fetches others") {
  Fixture fixture(descent(1), {0});
  for (std::uint64_t i = 0; i < 7; ++i) fixture.push({1}, {.base_version = i});
  for (const PushedGradient& unknown :
       {PushedGradient{.base_version = 8}, PushedGradient{.base_version = 6, .own_updates = 2}}) {
    const auto result = fixture.push({1}, unknown);
    CHECK(result.verdict == Verdict::kDropped);
    CHECK(result.staleness == 0);
  }
  CHECK(fixture.shard.version() == 7);
  std::vector<float> found(1);
  CHECK(fixture.shard.fetch(0, 8, std::as_writable_bytes(std::span(found))) == 7);
  CHECK(fixture.shard.fetch(0, 7, std::as_writable_bytes(std::span(found))) == std::nullopt);
}

TEST_CASE("shard: a gradient beyond the limit is dropped") {
  auto options = descent(1, StalenessPolicy::kDrop);
  options.max_staleness = 1;
  Fixture fixture(options, {0});
  fixture.push({1});
  CHECK(fixture.push({1}, {.base_version = 0}).verdict == Verdict::kAccepted);
  const auto result = fixture.push({1}, {.base_version = 0});
  CHECK(result.verdict == Verdict::kDropped);
  CHECK(result.version == 2);
  CHECK(result.staleness == 2);
  CHECK(fixture.values() == std::vector<float>{-1});
  CHECK(fixture.shard.stats().dropped == 1);
}

TEST_CASE("shard: a stale gradient has less weight") {
  Fixture fixture(descent(2, StalenessPolicy::kScale), {0, 0});
  fixture.push({0, 0});
  fixture.push({4, 8}, {.base_version = 0});  // one late: whole
  CHECK(fixture.values() == std::vector<float>{-2, -4});
  fixture.push({0, 0}, {.base_version = 2});
  fixture.push({0, 0}, {.base_version = 3});
  fixture.push({8, 16}, {.base_version = 0});  // four late: a quarter
  CHECK(fixture.values() == std::vector<float>{-3, -6});
  fixture.push({4, 8}, {.base_version = 3});  // two late: a half
  CHECK(fixture.values() == std::vector<float>{-4, -8});
}

TEST_CASE("shard: a stale gradient has less weight with a normalizing optimizer, too") {
  const OptimizerOptions adam = {.kind = OptimizerOptions::Kind::kAdam, .learning_rate = 0.1};
  auto slower = adam;
  slower.learning_rate = 0.1 / 4;
  for (const std::size_t skip : {0, 1}) {
    Fixture fixture({.size = 9000, .policy = StalenessPolicy::kScale, .optimizer = adam}, std::vector<float>(9000, 1));
    Optimizer twin(adam, 9000);
    std::vector<float> expected(9000, 1), gradient(9000, 3);
    for (std::uint64_t i = 0; i < 4; ++i) {
      twin.apply(expected, gradient);
      fixture.push(gradient, {.base_version = i});
    }
    apply_gradient(slower, 5, expected, twin.data(), 9000, gradient);
    std::vector<std::byte> bytes(9000 * sizeof(float) + skip);
    std::memcpy(bytes.data() + skip, gradient.data(), 9000 * sizeof(float));
    CHECK(fixture.shard.push({.base_version = 0}, std::span(bytes).subspan(skip)).staleness == 4);
    CHECK(fixture.values() == expected);
  }
}

TEST_CASE("shard: delay compensation adds the estimated change of the gradient") {
  auto options = descent(2, StalenessPolicy::kCompensate);
  options.compensation = 0.25;
  Fixture fixture(options, {1, 1});
  CHECK(fixture.fetch(1) == 0);
  CHECK(fixture.fetch(2) == 0);
  fixture.push({2, -4}, {.worker = 1, .sequence = 1});  // nothing to compensate for
  CHECK(fixture.values() == std::vector<float>{0, 3});
  // g + 0.25 g g (now - then): 2 + 0.25 * 4 * (0 - 1) = 1; 4 + 0.25 * 16 * (3 - 1) = 12
  fixture.push({2, 4}, {.worker = 2, .sequence = 1});
  CHECK(fixture.values() == std::vector<float>{-0.5f, -3});
  const auto dropped = [&](const PushedGradient& pushed) {
    return fixture.push({2, 4}, pushed).verdict == Verdict::kDropped;
  };
  CHECK(dropped({.worker = 1, .sequence = 2, .base_version = 2}));  // it did not fetch these
  CHECK(dropped({.worker = 3, .sequence = 1}));
  CHECK(dropped({}));
  CHECK(fixture.fetch(1) == 2);
  const std::vector<float> state = {7, 7};
  fixture.shard.load(2, std::as_bytes(std::span(state)));
  CHECK(dropped({.worker = 1, .sequence = 3, .base_version = 2}));  // what it fetched is not there any more
  CHECK(fixture.shard.version() == 2);
}

TEST_CASE("shard: a gradient that is not finite after its compensation is refused, and changes nothing") {
  auto options = descent(9000, StalenessPolicy::kCompensate);
  options.compensation = 0.04;
  Fixture fixture(options, std::vector<float>(9000, 1));
  for (const std::uint64_t worker : {1, 2}) fixture.fetch(worker);
  std::vector<float> gradient(9000, 2);
  CHECK(fixture.push(gradient, {.worker = 1, .sequence = 1}).verdict == Verdict::kAccepted);
  gradient[8999] = 1e20f;  // finite, but its square is not
  CHECK(fixture.push(gradient, {.worker = 2, .sequence = 1}).verdict == Verdict::kRefused);
  CHECK(fixture.values() == std::vector<float>(9000, 0));
  CHECK(fixture.shard.version() == 1);
  CHECK(fixture.shard.stats().refused == 1);
}

TEST_CASE("shard: fetched parameters are kept within the budget; those of the least recent worker are dropped") {
  MemoryBudget budget(3 * 4096 + 4 * Shard::kBytesEachWorker);
  auto options = descent(1024, StalenessPolicy::kCompensate);
  const std::vector<float> values(1024);
  Shard shard(options, std::as_bytes(std::span(values)), budget, 0);
  std::vector<float> found(1024);
  const auto room = std::as_writable_bytes(std::span(found));
  std::uint64_t sequence = 0;
  const auto push = [&](std::uint64_t worker) {
    const PushedGradient pushed{.worker = worker, .sequence = ++sequence, .base_version = shard.version()};
    return shard.push(pushed, std::as_bytes(std::span(values))).verdict;
  };
  for (const std::uint64_t worker : {1, 2, 3}) CHECK(shard.fetch(worker, -1, room) == 0);
  CHECK(push(1) == Verdict::kDropped);
  CHECK(shard.fetch(3, 0, room) == std::nullopt);
  CHECK(shard.fetch(1, 0, room) == 0);  // nothing newer, but no longer kept: from 2, who was silent longest
  CHECK(push(2) == Verdict::kDropped);
  CHECK(push(1) == Verdict::kAccepted);
  CHECK(shard.fetch(3, 0, room) == 1);
  CHECK(push(3) == Verdict::kAccepted);
  CHECK(budget.used() <= budget.limit());
}

TEST_CASE("shard: a gradient that is not finite or too large is refused, at any position") {
  for (const std::size_t skip : {0, 1, 2, 3}) {
    for (const float bad : {kNan, std::numeric_limits<float>::infinity(), 2e18f}) {
      Fixture fixture(descent(9000), std::vector<float>(9000, 1));
      std::vector<float> gradient(9000, 2);
      std::vector<std::byte> bytes(9000 * sizeof(float) + skip);
      const auto push = [&] {
        std::memcpy(bytes.data() + skip, gradient.data(), 9000 * sizeof(float));
        return fixture.shard.push({.base_version = fixture.shard.version()}, std::span(bytes).subspan(skip));
      };
      gradient[8999] = bad;
      CHECK(push().verdict == Verdict::kRefused);
      CHECK(fixture.values() == std::vector<float>(9000, 1));
      gradient[8999] = 4;
      CHECK(push().version == 1);
      CHECK(fixture.values()[0] == 0);
      CHECK(fixture.values()[8999] == -1);
      CHECK(fixture.shard.stats().refused == 1);
    }
  }
}

TEST_CASE("shard: the result is bit-identical for any alignment of the gradient") {
  ShardOptions options = descent(10'007);
  options.optimizer = {.kind = OptimizerOptions::Kind::kAdam, .learning_rate = 0.01};
  std::vector<float> gradient(10'007);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = std::sin(static_cast<float>(i));
  std::vector<std::vector<float>> results;
  for (const std::size_t skip : {0, 1, 3}) {
    Fixture fixture(options, std::vector<float>(10'007, 0.5f));
    std::vector<std::byte> bytes(gradient.size() * sizeof(float) + skip);
    std::memcpy(bytes.data() + skip, gradient.data(), bytes.size() - skip);
    for (std::uint64_t i = 0; i < 3; ++i) fixture.shard.push({.base_version = i}, std::span(bytes).subspan(skip));
    results.push_back(fixture.values());
  }
  CHECK(results[0][1] != 0.5f);
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
}

TEST_CASE("shard: a gradient that is sent again returns its first result") {
  Fixture fixture(descent(1), {0});
  const PushedGradient first{.worker = 9, .sequence = 1};
  CHECK(fixture.push({2}, first).version == 1);
  CHECK(fixture.push({2}, {.worker = 8, .sequence = 1}).version == 2);
  CHECK(fixture.push({2}, first).version == 1);
  CHECK(fixture.values() == std::vector<float>{-2});
  const PushedGradient bad{.worker = 9, .sequence = 2};
  CHECK(fixture.shard.refuse(bad).verdict == Verdict::kRefused);
  CHECK(fixture.push({2}, bad).verdict == Verdict::kRefused);
  CHECK(fixture.push({2}, {.worker = 9, .sequence = 3}).staleness == 2);
  CHECK(fixture.push({2}, first).version == 3);  // older: the result of the worker's last
  CHECK(fixture.shard.stats().accepted == 3);
  CHECK(fixture.shard.stats().refused == 1);
}

TEST_CASE("shard: a first gradient is applied with any sequence number") {
  const auto options = descent(1, StalenessPolicy::kCompensate);
  Fixture fixture(options, {0});
  fixture.fetch(9);
  Fixture restored(options, {0});
  std::vector<std::byte> memory(fixture.shard.state_bytes());
  restored.shard.restore(fixture.shard.image(memory), std::nullopt);
  restored.fetch(9);
  for (Fixture* each : {&fixture, &restored}) {
    const PushedGradient first{.worker = 9, .sequence = 0};
    for (int i = 0; i < 2; ++i) CHECK(each->push({2}, first).version == 1);
    CHECK(each->values() == std::vector<float>{-1});
    CHECK(each->shard.stats().accepted == 1);
  }
}

TEST_CASE("shard: the number of remembered workers is limited") {
  for (const bool ascending : {true, false}) {
    CAPTURE(ascending);
    Fixture fixture(descent(1), {0});
    const auto push_as = [&](std::uint64_t nth) {
      fixture.push({1}, {.worker = ascending ? nth : Shard::kMaxWorkers + 2 - nth, .sequence = 5});
    };
    for (std::uint64_t nth = 1; nth <= Shard::kMaxWorkers + 1; ++nth) push_as(nth);
    const auto version = fixture.shard.version();
    push_as(2);
    CHECK(fixture.shard.version() == version);
    push_as(1);  // it was silent longest, and is forgotten
    CHECK(fixture.shard.version() == version + 1);
  }
}

TEST_CASE("shard: a restored one knows which of its workers was silent longest") {
  Fixture fixture(descent(1), {0}), restored(descent(1), {0});
  for (const std::uint64_t sequence : {1, 2}) {
    for (std::uint64_t worker = Shard::kMaxWorkers; worker >= 1; --worker) {
      fixture.push({1}, {.worker = worker, .sequence = sequence});
    }
  }
  std::vector<std::byte> memory(fixture.shard.state_bytes());
  restored.shard.restore(fixture.shard.image(memory), std::nullopt);
  const PushedGradient oldest{.worker = Shard::kMaxWorkers, .sequence = 3};
  const PushedGradient newest{.worker = 1, .sequence = 2};
  restored.push({1}, oldest);
  restored.push({1}, {.worker = Shard::kMaxWorkers + 1, .sequence = 1});  // takes the place of the second oldest
  const auto version = restored.shard.version();
  restored.push({1}, oldest);
  restored.push({1}, newest);
  CHECK(restored.shard.version() == version);
}

TEST_CASE("shard: its state is sufficient to continue") {
  ShardOptions options = descent(3);
  options.optimizer = {.kind = OptimizerOptions::Kind::kAdam, .learning_rate = 0.1};
  Fixture one(options, {1, 2, 3});
  Fixture other(options, {0, 0, 0});
  one.push({1, -1, 2});
  std::vector<float> state(9);
  CHECK(one.shard.state(std::as_writable_bytes(std::span(state))) == 1);
  CHECK(std::vector(state.begin(), state.begin() + 3) == one.values());
  other.shard.load(1, std::as_bytes(std::span(state)));
  CHECK(other.shard.version() == 1);
  for (Fixture* each : {&one, &other}) CHECK(each->push({3, 1, -1}, {.base_version = 1}).version == 2);
  CHECK(one.values() == other.values());
  state[4] = kNan;
  check_error(ErrorKind::kRefused, "finite", [&] { one.shard.load(1, std::as_bytes(std::span(state))); });
  check_error(ErrorKind::kRefused, "36 required", [&] { one.shard.load(1, std::as_bytes(std::span(state).first(3))); });
}

TEST_CASE("shard: with several threads that push, no update is lost or seen incomplete") {
  constexpr std::size_t kSize = 5000;
  constexpr int kThreads = 4, kPushes = 50;
  Fixture fixture(descent(kSize), std::vector<float>(kSize, 0));
  std::vector<std::thread> threads;
  std::atomic<int> torn = 0;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<float> gradient(kSize, 2);
      std::vector<float> found(kSize);
      for (std::uint64_t n = 1; n <= kPushes; ++n) {
        fixture.shard.push({.worker = std::uint64_t(i) + 1, .sequence = n}, std::as_bytes(std::span(gradient)));
        fixture.shard.fetch(0, -1, std::as_writable_bytes(std::span(found)));
        if (found.front() != found.back()) ++torn;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(fixture.shard.version() == kThreads * kPushes);
  CHECK(fixture.values() == std::vector<float>(kSize, -kThreads * kPushes));
}

TEST_CASE("shard options: text round trip, and invalid values") {
  auto options = descent(12, StalenessPolicy::kCompensate);
  options.max_staleness = 7;
  options.compensation = 0.04;
  CHECK(ShardOptions::decode(options.encode()) == options);
  const auto text = options.encode();
  check_error(ErrorKind::kCorrupt, "two lines", [] { ShardOptions::decode("size=1"); });
  check_error(ErrorKind::kCorrupt, "size", [&] { ShardOptions::decode("x" + text); });
  check_error(ErrorKind::kInvalid, "accept, drop, scale or compensate",
              [] { ShardOptions::decode("size=1;policy=hope;max_staleness=0;compensation=0\nkind=sgd"); });
  options.compensation = -1;
  check_error(ErrorKind::kInvalid, "compensation is -1", [&] { options.check(); });
  check_error(ErrorKind::kInvalid, "size is 0", [] { descent(0).check(); });
  check_error(ErrorKind::kInvalid, "2147483648", [] { descent((std::size_t{1} << 31) + 1).check(); });
}

TEST_CASE("shards: under names, fresh or continued") {
  MemoryBudget budget(64);
  Shards shards(budget);
  const std::vector<float> values = {1, 2};
  const auto initial = std::as_bytes(std::span(values));
  check_error(ErrorKind::kNotFound, "\"model/0\"", [&] { shards.find("model/0"); });
  check_error(ErrorKind::kNotFound, "no initial values", [&] { shards.open("model/0", descent(2), false, {}); });
  const auto made = shards.open("model/0", descent(2), false, initial);
  CHECK(shards.open("model/0", descent(2), false, {}) == made);
  CHECK(shards.find("model/0") == made);
  check_error(ErrorKind::kRefused, "policy=drop",
              [&] { shards.open("model/0", descent(2, StalenessPolicy::kDrop), false, initial); });
  CHECK(shards.open("model/1", descent(2), false, initial)->lane() == made->lane() + 1);
  const auto fresh = shards.open("model/0", descent(2), true, initial);
  CHECK(fresh != made);
  CHECK(fresh->lane() == made->lane());
  check_error(ErrorKind::kRefused, "8 required", [&] { shards.open("model/2", descent(2), false, initial.first(4)); });
  const std::vector<float> bad = {1, kNan};
  check_error(ErrorKind::kInvalid, "finite",
              [&] { shards.open("model/2", descent(2), false, std::as_bytes(std::span(bad))); });
  const std::vector<float> large(20);
  check_error(ErrorKind::kRefused, "memory budget",
              [&] { shards.open("model/2", descent(20), false, std::as_bytes(std::span(large))); });
  CHECK(shards.list().size() == 2);
  CHECK(shards.drop("model/1") == 1);
  CHECK(shards.drop("m") == 1);
  CHECK(shards.list().empty());
}

}  // namespace
}  // namespace headrace
