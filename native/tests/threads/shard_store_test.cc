// Shards of a server with a data directory: what the next server finds.
#include "core/shard_store.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/server.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::ScratchFolder;

constexpr std::size_t kSize = 3000;
constexpr auto kNever = std::chrono::hours(1000);  // between two saves

ShardOptions adam() {
  return {.size = kSize, .optimizer = {.kind = OptimizerOptions::Kind::kAdam, .learning_rate = 0.1}};
}

std::vector<float> values_of(Shard& shard) {
  std::vector<float> found(shard.options().size);
  REQUIRE(shard.fetch(0, -1, std::as_writable_bytes(std::span(found))));
  return found;
}

// Opens a shard of ones. `fresh`: instead of an existing one.
std::shared_ptr<Shard> open(Server& server, const std::string& name, bool fresh = true) {
  const std::vector<float> initial(kSize, 1);
  return server.shards().open(name, adam(), fresh, fresh ? std::as_bytes(std::span(initial)) : std::span<std::byte>());
}

// Pushes gradients of 1, 2, 3 and so on, numbered from `first` on, as one worker.
void push(Shard& shard, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = first; i < first + count; ++i) {
    const std::vector<float> gradient(kSize, static_cast<float>(i));
    const PushedGradient pushed{.worker = 5, .sequence = i, .base_version = shard.version()};
    REQUIRE(shard.push(pushed, std::as_bytes(std::span(gradient))).verdict == Verdict::kAccepted);
  }
}

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename() != "claims") files.insert(entry.path().filename().string());
  }
  return files;
}

// What a server that is killed now leaves.
std::string killed(const ScratchFolder& folder, const std::string& data, const std::string& name = "killed") {
  const std::string copy = folder.file(name);
  std::filesystem::remove_all(copy);
  std::filesystem::copy(data, copy);
  return copy;
}

std::string all(const Server& server) {
  std::string text;
  for (const auto& notice : server.notices()) text += notice + "\n";
  return text;
}

TEST_CASE("shard store: a server that ends leaves its shards as they are") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  std::vector<float> values;
  {
    Server server({.data = data, .shard_save_period = kNever});
    const auto shard = open(server, "run/model/0");
    push(*shard, 1, 5);
    values = values_of(*shard);
    open(server, "other/model/vector-1/0");
    server.close();
    push(*shard, 6, 1);  // a request that was under way
    server.close_shards();
    values = values_of(*shard);
  }
  Server server({.data = data});
  CHECK(all(server).empty());
  CHECK(server.shards().list().size() == 2);
  const auto shard = open(server, "run/model/0", false);
  CHECK(values_of(*shard) == values);
  CHECK(shard->version() == 6);
  CHECK(shard->stats().lost == 0);
  const PushedGradient again{.worker = 5, .sequence = 6, .base_version = 5};
  const std::vector<float> gradient(kSize, 6);
  CHECK(shard->push(again, std::as_bytes(std::span(gradient))).version == 6);  // once is enough
  CHECK(values_of(*shard) == values);
  Server twin;
  push(*open(twin, "model"), 1, 8);
  push(*shard, 7, 2);
  CHECK(values_of(*shard) == values_of(*twin.shards().find("model")));
}

TEST_CASE("shard store: after a kill a shard continues from its last save, and counts what was lost") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  Server before({.data = data, .shard_save_period = kNever});
  const auto lost = open(before, "run/model/0");
  push(*lost, 1, 4);
  CHECK(before.shards().save().empty());
  CHECK(lost->stats().saved_version == 4);
  push(*lost, 5, 3);
  Server server({.data = killed(folder, data), .shard_save_period = kNever});
  const auto shard = server.shards().find("run/model/0");
  CHECK_MESSAGE(all(server).find("\"run/model/0\": 3 updates") != std::string::npos, all(server));
  CHECK(shard->stats().lost == 3);
  CHECK(shard->version() == 8);  // above all that a worker may have
  Server twin;
  const auto same = open(twin, "model");
  push(*same, 1, 4);
  CHECK(values_of(*shard) == values_of(*same));
  std::vector<float> found(kSize);
  CHECK(shard->fetch(5, 7, std::as_writable_bytes(std::span(found))) == 8);
  const std::vector<float> gradient(kSize, 5);
  const auto push_at = [&](std::uint64_t sequence, std::uint64_t base) {
    return shard->push({.worker = 5, .sequence = sequence, .base_version = base}, std::as_bytes(std::span(gradient)));
  };
  CHECK(push_at(4, 3).version == 4);  // saved, so it is not applied again
  CHECK(shard->version() == 8);
  const auto again = push_at(5, 7);  // lost, so it is
  CHECK(again.version == 9);
  CHECK(again.staleness == 1);
  push(*same, 5, 1);
  CHECK(values_of(*shard) == values_of(*same));  // and the optimizer's steps have no gap
  std::vector<float> state(3 * kSize);
  CHECK(shard->state(std::as_writable_bytes(std::span(state))) == 5);
  server.shards().save();
  Server third({.data = killed(folder, folder.file("killed"), "again"), .shard_save_period = kNever});
  CHECK(third.shards().find("run/model/0")->stats().lost == 3);
  CHECK(third.shards().find("run/model/0")->version() == 9);
}

TEST_CASE("shard store: killed again before its next save, it counts every lost update once") {
  const ScratchFolder folder;
  Server before({.data = folder.file("data"), .shard_save_period = kNever});
  const auto shard = open(before, "run/model/0");
  push(*shard, 1, 4);
  CHECK(before.shards().save().empty());
  push(*shard, 5, 3);
  const auto start = [&](std::uint64_t number) {
    const auto of = [&](std::uint64_t n) { return n == 0 ? std::string("data") : "killed-" + std::to_string(n); };
    const std::string data = killed(folder, folder.file(of(number - 1)), of(number));
    return std::make_unique<Server>(ServerOptions{.data = data, .shard_save_period = kNever});
  };
  const auto first = start(1);
  CHECK(first->shards().find("run/model/0")->stats().lost == 3);
  CHECK(first->shards().find("run/model/0")->stats().saved_version == 8);
  const auto second = start(2);  // nothing has happened since
  CHECK(all(*second).empty());
  const auto unchanged = second->shards().find("run/model/0");
  CHECK(unchanged->stats().lost == 3);
  CHECK(unchanged->version() == 8);
  push(*unchanged, 5, 2);
  const auto third = start(3);
  CHECK_MESSAGE(all(*third).find("\"run/model/0\": 2 updates") != std::string::npos, all(*third));
  CHECK(third->shards().find("run/model/0")->stats().lost == 5);
  CHECK(third->shards().find("run/model/0")->version() == 11);
}

TEST_CASE("shard store: a newest version that is damaged is said once") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    open(server, "run/model/0");
  }
  std::fstream(data + "/shard-1.slots", std::ios::in | std::ios::out | std::ios::binary).write("damaged", 7);
  Server server({.data = data, .shard_save_period = kNever});
  CHECK_MESSAGE(all(server).find("newest version is damaged") != std::string::npos, all(server));
  CHECK(all(Server({.data = killed(folder, data)})).empty());
}

TEST_CASE("shard store: what was opened or loaded is there at once") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  Server before({.data = data, .shard_save_period = kNever});
  open(before, "run/model/0");
  CHECK(Server({.data = killed(folder, data)}).shards().find("run/model/0")->version() == 0);
  push(*before.shards().find("run/model/0"), 1, 1);
  CHECK(before.shards().save().empty());
  const std::vector<float> state(3 * kSize, 0.25f);
  before.shards().load("run/model/0", 60, std::as_bytes(std::span(state)));
  Server server({.data = killed(folder, data)});
  const auto shard = server.shards().find("run/model/0");
  CHECK(shard->version() == 60);
  CHECK(shard->stats().saved_version == 60);
  CHECK(shard->stats().lost == 0);
  CHECK(values_of(*shard) == std::vector<float>(kSize, 0.25f));
}

TEST_CASE("shard store: killed before what was loaded is saved, it has lost no updates") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  Server before({.data = data, .shard_save_period = kNever});
  const auto shard = open(before, "run/model/0");
  const std::vector<float> state(3 * kSize, 0.25f);
  shard->load(60, std::as_bytes(std::span(state)));
  const auto after_a_kill = [&] {  // the version, and the updates that were lost
    Server server({.data = killed(folder, data), .shard_save_period = kNever});
    const auto again = server.shards().find("run/model/0");
    return std::pair(again->version(), again->stats().lost);
  };
  CHECK(after_a_kill() == std::pair<std::uint64_t, std::uint64_t>(0, 0));
  push(*shard, 1, 1);
  CHECK(before.shards().save().empty());
  CHECK(after_a_kill() == std::pair<std::uint64_t, std::uint64_t>(61, 0));
  push(*shard, 2, 3);
  CHECK(after_a_kill() == std::pair<std::uint64_t, std::uint64_t>(65, 3));  // a later version than any worker has
}

TEST_CASE("shard store: a shard is saved in the period") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data"), .shard_save_period = std::chrono::milliseconds(1)});
  const auto shard = open(server, "run/model/0");
  push(*shard, 1, 3);
  for (const auto deadline = fixtures::soon(30'000); shard->stats().saved_version < 3;) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
}

TEST_CASE("shard store: a new shard replaces the file, and a dropped one takes its file along") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    push(*open(server, "run/model/0"), 1, 3);
    open(server, "run/model/1");
    open(server, "running/model/0");
    const auto kept = open(server, "run/model/0");
    CHECK(kept->version() == 0);
    CHECK(files_in(data) == std::set<std::string>{"shard-1.slots", "shard-2.slots", "shard-3.slots"});
    CHECK(server.drop("run/") == 2);
    push(*kept, 1, 1);  // a request that was under way
    CHECK(server.shards().save().empty());
    CHECK(files_in(data) == std::set<std::string>{"shard-3.slots"});
    open(server, "run/model/2");
  }
  Server server({.data = data});
  CHECK(all(server).empty());
  std::set<std::string> names;
  for (const auto& [name, shard] : server.shards().list()) names.insert(name);
  CHECK(names == std::set<std::string>{"run/model/2", "running/model/0"});
  server.drop("run");
  CHECK(files_in(data).empty());
  CHECK(server.budget().used() == 0);
}

TEST_CASE("shard store: files that can't be used are set aside, and the server starts") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    open(server, "run/model/0");
    open(server, "run/model/1");
  }
  std::filesystem::copy_file(data + "/shard-1.slots", data + "/shard-9.slots");
  std::filesystem::copy_file(data + "/shard-1.slots", data + "/shard-5.slots");
  std::filesystem::resize_file(data + "/shard-5.slots", 20'000);
  std::ofstream(data + "/shard-6.slots") << "mine";
  std::ofstream(data + "/shard-7.slots.new") << "mine";
  std::ofstream(data + "/shard-x.slots") << "mine";
  std::filesystem::create_directories(data + "/shard-8.slots");
  std::mt19937 random(3);
  for (int i = 20; i < 60; ++i) {
    std::ofstream file(data + "/shard-" + std::to_string(i) + ".slots", std::ios::binary);
    for (unsigned j = 0, bytes = random() % 300'000; j < bytes; j += 4) file.write("HRSHARD1" + random() % 5, 4);
  }
  Server server({.data = data});
  CHECK(server.shards().list().size() == 2);
  CHECK(server.notices().size() == 5 + 40);
  const auto files = files_in(data);
  for (const char* file : {"shard-5.slots.orphan", "shard-6.slots.orphan", "shard-7.slots.new.orphan",
                           "shard-9.slots.orphan", "shard-59.slots.orphan", "shard-x.slots"}) {
    CHECK_MESSAGE(files.contains(file), file);
  }
  open(server, "run/model/2");
  CHECK(files_in(data).contains("shard-60.slots"));
}

TEST_CASE("shard store: a server with only shards reports that its claims file is missing") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    open(server, "run/model/0");
  }
  std::filesystem::remove(data + "/claims");
  const Server server({.data = data});
  CHECK_MESSAGE(all(server).find("claims is missing") != std::string::npos, all(server));
}

TEST_CASE("shard store: numbers that are not finite are not restored") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.file("data"));
  std::vector<float> state(3 * kSize, std::numeric_limits<float>::quiet_NaN());
  const ShardImage image{.state = std::as_writable_bytes(std::span(state))};
  { const ShardFile file(folder.file("data") + "/shard-1.slots", "model/0", adam(), image); }
  Server server({.data = folder.file("data")});
  CHECK(server.shards().list().empty());
  CHECK(all(server).find("set aside") != std::string::npos);
}

TEST_CASE("shard store: the copy that is written counts, once for all shards") {
  const ScratchFolder folder;
  const std::uint64_t bytes = adam().state_bytes();
  {
    Server server({.data = folder.file("data"), .memory_bytes = 3 * bytes});
    open(server, "run/model/0");
    CHECK(server.budget().used() == 2 * bytes);
    open(server, "run/model/1");
    CHECK(server.budget().used() == 3 * bytes);
    check_error(ErrorKind::kRefused, "budget", [&] { open(server, "run/model/2"); });
    CHECK(files_in(folder.file("data")).size() == 2);
  }
  check_error(ErrorKind::kRefused, "shard-1.slots",
              [&] { Server({.data = folder.file("data"), .memory_bytes = bytes}); });
  {
    Server server({.data = folder.file("small"), .memory_bytes = 2 * bytes - 1});
    check_error(ErrorKind::kRefused, "copy", [&] { open(server, "run/model/0"); });
    CHECK(server.budget().used() == 0);
    CHECK(server.shards().list().empty());
  }
}

TEST_CASE("shard store: a save that comes after the drop, or after the shard was replaced, takes no memory") {
  const ScratchFolder folder;
  MemoryBudget budget;
  ShardStore store(folder.file(""), budget);
  const std::vector<float> initial(kSize, 1);
  Shard replaced(adam(), std::as_bytes(std::span(initial)), budget, 0);
  Shard dropped(adam(), std::as_bytes(std::span(initial)), budget, 0);
  store.keep("model/0", replaced, nullptr);
  store.keep("model/0", dropped, &replaced);
  push(replaced, 1, 1);
  push(dropped, 1, 1);
  CHECK(budget.used() >= 3 * adam().state_bytes());  // with the copy
  store.remove(dropped);
  store.release();
  const auto used = budget.used();
  for (Shard* const each : {&replaced, &dropped}) {
    store.save(*each);
    CHECK(budget.used() == used);
  }
  CHECK(files_in(folder.file("")).empty());
}

}  // namespace
}  // namespace headrace
