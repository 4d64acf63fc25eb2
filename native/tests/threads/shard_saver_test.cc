#include "core/shard_saver.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <barrier>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/server.h"
#include "core_fixtures.h"

namespace {

thread_local std::function<bool(const std::string&)> before_fdatasync;  // with the file's name; false: it fails

}  // namespace

// In place of the C library's: a test can tell what is flushed.
extern "C" int fdatasync(int file) {
  const std::filesystem::path link = "/proc/self/fd/" + std::to_string(file);
  if (before_fdatasync && !before_fdatasync(std::filesystem::read_symlink(link).filename())) {
    errno = EIO;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fdatasync, file));
}

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::ScratchFolder;
using fixtures::soon;

constexpr std::size_t kSize = 50'000;
constexpr std::chrono::milliseconds kOften{1};
constexpr std::chrono::hours kNever{1000};

std::shared_ptr<Shard> open(Shards& shards, const std::string& name, std::size_t size = kSize) {
  const std::vector<float> initial(size);
  const ShardOptions options{.size = size, .optimizer = {.kind = OptimizerOptions::Kind::kMomentum}};
  return shards.open(name, options, true, std::as_bytes(std::span(initial)));
}

void push(Shard& shard) {
  const std::vector<float> gradient(shard.options().size, 1);
  shard.push({.base_version = shard.version()}, std::as_bytes(std::span(gradient)));
}

template <typename Condition>
void wait_until(Condition condition) {
  for (const auto deadline = soon(30'000); !condition(); std::this_thread::sleep_for(kOften)) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
  }
}

// Files can't be written beyond so many bytes, as on a disk with an error.
class WriteLimit {
 public:
  explicit WriteLimit(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~WriteLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }
  WriteLimit(const WriteLimit&) = delete;
  WriteLimit& operator=(const WriteLimit&) = delete;

 private:
  void (*const signal_)(int);
  rlimit before_ = {};
};

TEST_CASE("shard saver: it saves what changes, while shards are made, updated and dropped") {
  const ScratchFolder folder;
  MemoryBudget budget;
  Shards shards(budget);
  REQUIRE(shards.keep_in(folder.file("")).empty());
  ShardSaver saver(shards, kOften);
  const auto kept = open(shards, "model/0");
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) {
      push(*open(shards, "other/0"));
      push(*open(shards, "other/1"));
      shards.drop("other/");
    }
  });
  for (int i = 0; i < 200; ++i) push(*kept);
  other.join();
  wait_until([&] { return kept->stats().saved_version == 200; });
  push(*kept);
  saver.stop();
  CHECK(kept->stats().saved_version == 201);  // by a last pass
  CHECK(saver.warnings().empty());
}

TEST_CASE("shard saver: a shard that can't be written is a warning, once, until it can be written again") {
  const ScratchFolder folder;
  MemoryBudget budget;
  Shards shards(budget);
  REQUIRE(shards.keep_in(folder.file("")).empty());
  const auto shard = open(shards, "run/model/0");
  push(*shard);
  ShardSaver saver(shards, kOften);
  wait_until([&] { return shard->stats().saved_version == 1; });
  for (std::size_t times = 1; times <= 2; ++times) {
    const auto saved = shard->stats().saved_version;
    {
      const WriteLimit limit(100);
      push(*shard);
      wait_until([&] { return saver.warnings().size() == times; });
      push(*shard);
      CHECK(shard->stats().saved_version == saved);
    }
    wait_until([&] { return shard->stats().saved_version == saved + 2; });
    REQUIRE(saver.warnings().size() == times);
    CHECK(saver.warnings().back().find("\"run/model/0\" could not be saved") != std::string::npos);
  }
  const auto file = shard->file();
  saver.stop();
  ShardFile again(file->path());
  std::vector<float> state(2 * kSize);
  ShardImage image{.state = std::as_writable_bytes(std::span(state))};
  CHECK(again.read(image).empty());
  CHECK(image.version == 5);
}

TEST_CASE("shard saver: two threads may close a server's shards at once, and they are saved for both") {
  const ScratchFolder folder;
  for (int round = 0; round < 20; ++round) {
    Server server({.data = folder.file(std::to_string(round)), .shard_save_period = kNever});
    const auto shard = open(server.shards(), "model/0");
    push(*shard);
    std::barrier start(2);
    const auto close = [&] {
      start.arrive_and_wait();
      CHECK_NOTHROW(server.close_shards());
      CHECK(shard->stats().saved_version == 1);
    };
    const std::jthread one(close), other(close);
  }
}

TEST_CASE("shard saver: a server shows warnings, and needs a period") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data"), .shard_save_period = kOften});
  const auto shard = open(server.shards(), "run/model/0");
  CHECK(server.notices().empty());
  {
    const WriteLimit limit(100);
    push(*shard);
    wait_until([&] { return server.notices().size() == 1; });
    check_error(ErrorKind::kSystem, "run/model/0", [&] { server.close_shards(); });
  }
  server.close_shards();
  CHECK(shard->stats().saved_version == 1);
  check_error(ErrorKind::kInvalid, "shard_save_seconds", [] { Server({.shard_save_period = {}}); });
}

TEST_CASE("shard saver: at the end every shard that can be written is on the disk, whichever others cannot") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data"), .shard_save_period = kNever});
  const auto large = open(server.shards(), "model/0");
  const auto small = open(server.shards(), "model/1", 10), other = open(server.shards(), "model/2", 10);
  for (const auto& shard : {large, small, other}) push(*shard);
  std::set<std::string> flushed;
  before_fdatasync = [&](const std::string& file) {
    flushed.insert(file);
    return file != "shard-2.slots";
  };
  const std::set<std::string> all{"shard-1.slots", "shard-2.slots", "shard-3.slots"};
  {
    const WriteLimit limit(500'000);  // the large one's second slot is beyond it
    check_error(ErrorKind::kSystem, "\"model/0\"", [&] { server.close_shards(); });
  }
  CHECK(large->stats().saved_version == 0);
  CHECK(other->stats().saved_version == 1);
  CHECK(flushed == all);
  flushed.clear();
  check_error(ErrorKind::kSystem, "\"model/1\"", [&] { server.close_shards(); });
  CHECK(flushed == all);
  before_fdatasync = nullptr;
  server.close_shards();
}

TEST_CASE("shard saver: a shard that lost updates is restored where it can't be written, and then loses no count") {
  const ScratchFolder folder;
  const auto killed = [&](const std::string& data, const std::string& name) {
    std::filesystem::copy(folder.file(data), folder.file(name));
    return ServerOptions{.data = folder.file(name), .shard_save_period = kNever};
  };
  Server before({.data = folder.file("before"), .shard_save_period = kNever});
  const auto shard = open(before.shards(), "model/0");
  for (int i = 0; i < 3; ++i) push(*shard);
  const auto options = killed("before", "first");
  const auto first = [&] {
    const WriteLimit limit(4096);
    return std::make_unique<Server>(options);
  }();
  CHECK(first->shards().find("model/0")->stats().lost == 3);
  CHECK(first->shards().find("model/0")->version() == 4);
  CHECK(first->shards().find("model/0")->stats().saved_version == 0);
  Server second(killed("first", "second"));
  CHECK(second.shards().find("model/0")->stats().lost == 3);
  CHECK(second.shards().find("model/0")->version() == 4);
}

}  // namespace
}  // namespace headrace
