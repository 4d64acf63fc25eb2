// A model in shards of real servers, over both kinds of socket.
#include "io/sharded_model.h"

#include <doctest/doctest.h>

#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io_fixtures.h"
#include "lossy_proxy.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

ShardOptions descent(StalenessPolicy policy = StalenessPolicy::kAccept) {
  return {.policy = policy,
          .optimizer = {.kind = OptimizerOptions::Kind::kMomentum, .learning_rate = 0.5, .decay = 0.5}};
}

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

ShardedModel model_at(const std::vector<std::string>& addresses, std::size_t count, std::size_t shards,
                      int reconnect_ms = 0) {
  return {to("", reconnect_ms), addresses, "model", count, shards};
}

}  // namespace

TEST_CASE("a model in shards: over both sockets, in one shard or several, on one server or two, the same floats") {
  constexpr std::size_t kCount = 10'001;
  std::vector<std::vector<float>> results;
  for (const char* where : {"unix:@", "tcp://127.0.0.1:0"}) {
    for (const std::size_t shards : {1, 2, 5}) {
      CAPTURE(where);
      CAPTURE(shards);
      Served one(small_table(), {.token = token_of("sixteen or more bytes")}, where);
      Served other(small_table(), {.token = token_of("sixteen or more bytes")}, where);
      auto options = to("");
      options.token = token_of("sixteen or more bytes");
      ShardedModel model(options, {one.address, other.address}, "model", kCount, shards);
      CHECK(model.shared() == std::string(where).starts_with("unix"));
      CHECK(model.open(descent(), counted(kCount), true) == 0);
      CHECK(one.server.shards().list().size() == (shards + 1) / 2);
      CHECK(other.server.shards().list().size() == shards / 2);
      std::vector<float> parameters(kCount);
      CHECK(kind_of([&] { model.push(parameters); }) == ErrorKind::kInvalid);
      CHECK(model.fetch(parameters) == 0);
      CHECK(parameters == counted(kCount));
      CHECK(model.fetch(parameters) == std::nullopt);
      for (std::uint64_t i = 1; i <= 3; ++i) {
        const auto result = model.push(parameters);
        CHECK(result.version == i);
        CHECK(result.staleness == 0);
        CHECK(model.fetch(parameters) == i);
      }
      results.push_back(parameters);
    }
  }
  // w = 2: v = 2, w = 1; v = 1 + 1 = 2, w = 0; v = 1 + 0 = 1, w = -0.5.
  CHECK(results[0][2] == -0.5f);
  for (const auto& result : results) CHECK(result == results[0]);
}

TEST_CASE("a model in shards: its state moves to another server and continues there") {
  Served one, other;
  auto model = model_at({one.address}, 7, 2);
  auto copy = model_at({other.address}, 7, 3);  // cut otherwise
  CHECK(kind_of([&] { model.vectors(); }) == ErrorKind::kInvalid);
  model.open(descent(), counted(7), true);
  copy.open(descent(), std::vector<float>(7), true);
  std::vector<float> parameters(7), copied(7), state(14);
  model.fetch(parameters);
  model.push(parameters);
  REQUIRE(model.vectors() == 2);
  CHECK(model.state(state) == 1);
  CHECK(state[6] == 3);      // 6 - 0.5 * 6
  CHECK(state[7 + 6] == 6);  // its momentum
  copy.fetch(copied);
  copy.load(1, state);
  CHECK(kind_of([&] { copy.push(parameters); }) == ErrorKind::kInvalid);  // what it fetched is not there any more
  CHECK(copy.fetch(copied) == 1);
  CHECK(model.fetch(parameters) == 1);
  CHECK(copied == parameters);
  CHECK(copy.push(copied).version == 2);
  CHECK(model.push(parameters).version == 2);
  copy.fetch(copied);
  model.fetch(parameters);
  CHECK(copied == parameters);
}

TEST_CASE("a model in shards: the result of a gradient is the worst of its shards' results") {
  Served served;
  auto model = model_at({served.address}, 4, 2);
  auto options = descent(StalenessPolicy::kDrop);
  options.max_staleness = 0;
  model.open(options, counted(4), true);
  std::vector<float> parameters(4);
  model.fetch(parameters);
  const std::vector<float> gradient(2);
  served.server.shards().find("model/0")->push({.base_version = 0}, std::as_bytes(std::span(gradient)));
  const auto result = model.push(parameters);
  CHECK(result.staleness == 1);
  CHECK(result.verdict == Verdict::kDropped);
}

TEST_CASE("a model in shards: a gradient that is not finite is refused by all of them") {
  Served served;
  for (const std::size_t shards : {1, 3}) {
    auto model = model_at({served.address}, 9, shards);
    model.open(descent(), counted(9), true);
    std::vector<float> parameters(9), gradient(9, 1);
    model.fetch(parameters);
    gradient[8] = std::numeric_limits<float>::quiet_NaN();
    CHECK(model.push(gradient).verdict == Verdict::kRefused);
    CHECK(model.fetch(parameters) == std::nullopt);
    gradient[8] = 1;
    CHECK(model.push(gradient).verdict == Verdict::kAccepted);
    CHECK(model.push(gradient).staleness == 0);  // its own update makes nothing stale
    for (const auto& [name, shard] : served.server.shards().list()) {
      CHECK(shard->stats().refused == 1);
      CHECK(shard->version() == 2);
    }
    served.server.drop("model/");
  }
}

TEST_CASE("a model in shards: a gradient whose answer is lost is applied once") {
  Served served(small_table(), {}, "tcp://127.0.0.1:0");
  Proxy proxy(served.address, "tcp://127.0.0.1:0");
  auto model = model_at({proxy.address()}, 100, 2, 60'000);
  model.open(descent(), counted(100), true);
  std::vector<float> parameters(100);
  model.fetch(parameters);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    proxy.lose_replies(1, false, MessageType::kPushGradient);
    CHECK(model.push(std::vector<float>(100, 1)).version == i);
  }
  proxy.lose_replies(1, false, MessageType::kFetchShard);
  CHECK(model.fetch(parameters) == 3);
  CHECK(proxy.lost() == 4);
  CHECK(model.reconnections() == 4);
  for (const auto& [name, shard] : served.server.shards().list()) CHECK(shard->version() == 3);
}

TEST_CASE("a model in shards: a replaced connection has new shared memory") {
  Served served;
  auto loop = std::make_unique<Loop>(served.server);
  const auto address = loop->listen("unix:@");
  auto model = model_at({address}, 10, 1, 60'000);
  model.open(descent(), counted(10), true);
  std::vector<float> parameters(10);
  model.fetch(parameters);
  loop.reset();
  loop = std::make_unique<Loop>(served.server);
  loop->listen(address);
  CHECK(model.push(std::vector<float>(10, 2)).version == 1);
  CHECK(model.fetch(parameters) == 1);
  CHECK(parameters[9] == 8);
  CHECK(model.reconnections() == 1);
}

TEST_CASE("a model in shards: if one shard fails, the others still apply every gradient") {
  Served served;
  auto model = model_at({served.address}, 10, 3);
  model.open(descent(), counted(10), true);
  std::vector<float> parameters(10);
  model.fetch(parameters);
  served.server.drop("model/1");
  std::string what;
  CHECK(kind_of([&] { model.push(parameters); }, &what) == ErrorKind::kNotFound);
  CHECK_MESSAGE(what.find("model/1") != std::string::npos, what);
  CHECK(kind_of([&] { model.push(parameters); }) == ErrorKind::kNotFound);
  CHECK(served.server.shards().find("model/2")->version() == 2);
  model.open(descent(), counted(10), true);
  CHECK(model.fetch(parameters) == 0);
  CHECK(model.push(parameters).version == 1);
}

TEST_CASE("a model in shards: an error names its server") {
  const fixtures::ScratchFolder folder;
  const std::string where = "unix:" + folder.file("socket");
  Served one;
  auto other = std::make_unique<Served>(small_table(), LoopOptions{}, where);
  auto model = model_at({one.address, where}, 10, 2, 60'000);
  model.open(descent(), counted(10), true);
  other.reset();
  other = std::make_unique<Served>(small_table(), LoopOptions{}, where);  // another one, without the shard
  std::vector<float> parameters(10);
  std::string what;
  CHECK(kind_of([&] { model.fetch(parameters); }, &what) == ErrorKind::kNotFound);
  CHECK_MESSAGE(what.starts_with("address '" + where + "': "), what);
}

TEST_CASE("a model in shards: a later call never receives the reply to an interrupted one") {
  Served served;
  struct Stopped : std::exception {};
  std::atomic<bool> stop = false;
  auto options = to("", 60'000);
  options.interrupt = [&] {
    if (stop) throw Stopped();
  };
  ShardedModel model(options, {served.address}, "model", 10, 2);
  model.open(descent(), counted(10), true);
  std::vector<float> parameters(10);
  model.fetch(parameters);
  stop = true;
  served.loop.close();
  CHECK_THROWS_AS(model.push(parameters), Stopped);
  stop = false;
  Loop again(served.server);
  again.listen(served.address);
  CHECK(model.fetch(parameters) == std::nullopt);
  CHECK(model.push(parameters).version == 1);
}

TEST_CASE("a model in shards: several workers, several shards, no update lost") {
  constexpr std::size_t kWorkers = 3, kPushes = 40, kCount = 3000;
  auto settings = descent();
  settings.optimizer.kind = OptimizerOptions::Kind::kSgd;
  for (const char* where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(small_table(), {.token = token_of("sixteen or more bytes")}, where);
    auto options = to("");
    options.token = token_of("sixteen or more bytes");
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      threads.emplace_back([&] {
        ShardedModel model(options, {served.address}, "model", kCount, 2);
        model.open(settings, std::vector<float>(kCount), false);
        std::vector<float> parameters(kCount);
        for (std::size_t n = 0; n < kPushes; ++n) {
          model.fetch(parameters);
          model.push(std::vector<float>(kCount, 2));
        }
      });
    }
    threads.clear();
    ShardedModel reader(options, {served.address}, "model", kCount, 2);
    CHECK(reader.open(settings, {}, false) == kWorkers * kPushes);
    std::vector<float> parameters(kCount);
    reader.fetch(parameters);
    CHECK(parameters == std::vector<float>(kCount, -float(kWorkers * kPushes)));
  }
}

TEST_CASE("a model in shards: invalid arguments are refused at once") {
  Served served;
  const auto invalid = [&](std::size_t count, std::size_t shards, const char* names) {
    std::string what;
    CHECK(kind_of([&] { model_at({served.address}, count, shards); }, &what) == ErrorKind::kInvalid);
    CHECK_MESSAGE(what.find(names) != std::string::npos, what);
  };
  invalid(0, 1, "count: 0");
  invalid((std::size_t{1} << 31) + 1, 32, "2147483648 parameters");
  invalid(10, 0, "shards: 0");
  invalid(10, 11, "1 to 10");
  std::string what;
  auto large = model_at({served.address}, std::size_t{1} << 28, 8);  // 2 x 4 bytes x 2^28: a little above 8 frames
  CHECK(kind_of([&] { large.open(descent(), {}, true); }, &what) == ErrorKind::kInvalid);
  CHECK_MESSAGE(what.find("at least 9 required") != std::string::npos, what);
  CHECK(kind_of([&] { model_at({served.address}, std::size_t{1} << 28, 9).open(descent(), {}, true); }) ==
        ErrorKind::kNotFound);
  CHECK(kind_of([&] { model_at({}, 1, 1); }) == ErrorKind::kInvalid);
  auto model = model_at({served.address}, 10, 2);
  CHECK(kind_of([&] { model.open(descent(), counted(9), true); }) == ErrorKind::kInvalid);
  CHECK(kind_of([&] { model.open(descent(), {}, true); }) == ErrorKind::kNotFound);
}
