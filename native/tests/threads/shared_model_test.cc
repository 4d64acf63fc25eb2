#include "core/shared_model.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>

#include "core/robust_mutex.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

constexpr std::size_t kSize = 1000;
constexpr int kUpdates = 200;
const OptimizerOptions kPlain{OptimizerOptions::Kind::kSgd, 1.0};

// Memory that a child of fork() shares.
std::span<std::byte> shared_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return {static_cast<std::byte*>(memory), bytes};
}

struct Fixture {
  explicit Fixture(SharedModelOptions options)
      : memory(shared_memory(SharedModel::bytes(options))), model([&] {
          SharedModel::format(memory, options, std::vector<float>(options.count));
          return SharedModel(memory);
        }()) {}
  ~Fixture() { ::munmap(memory.data(), memory.size()); }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::span<std::byte> memory;
  SharedModel model;
};

// Runs work(worker) in a thread each.
void at_once(std::uint32_t workers, const std::function<void(std::uint32_t)>& work) {
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < workers; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
}

TEST_CASE("shared model: workers apply, read and average concurrently") {
  for (const Sharing sharing : {Sharing::kLock, Sharing::kHogwild, Sharing::kAdPsgd}) {
    for (const bool own_optimizer_state : {false, true}) {
      CAPTURE(static_cast<int>(sharing));
      Fixture shared({OptimizerOptions{}, sharing, own_optimizer_state, 3, kSize});
      at_once(3, [&](std::uint32_t worker) {
        SharedModel model(shared.memory);
        std::vector<float> gradient(kSize, 1), seen(kSize);
        model.join(worker);
        for (int i = 0; i < kUpdates; ++i) {
          const std::uint64_t base = model.read_into(seen, worker);
          const auto applied = model.apply(worker, gradient, base);
          if (applied.version <= base || applied.staleness < 0) std::abort();
          if (sharing == Sharing::kAdPsgd) model.average(worker, (worker + 1) % 3);
          if (i % 16 == 0) model.read_into(seen);
          if (i % 64 == 0) model.state();
        }
      });
      CHECK(shared.model.version() == 3 * kUpdates);
      const auto state = shared.model.state();
      CHECK(state.steps ==
            std::vector<std::uint64_t>(shared.model.moment_sets(), 3 * kUpdates / shared.model.moment_sets()));
      CHECK(all_finite(state.parameters));
    }
  }
}

TEST_CASE("shared model: under the lock no update is lost") {
  Fixture shared({kPlain, Sharing::kLock, false, 3, kSize});
  at_once(3, [&](std::uint32_t worker) {
    const std::vector<float> gradient(kSize, 1);
    for (int i = 0; i < kUpdates; ++i) shared.model.apply(worker, gradient, 0);
  });
  for (const float value : shared.model.parameters(0)) CHECK(value == -3 * kUpdates);
}

TEST_CASE("shared model: a lock whose holder's thread or process has ended can be taken") {
  const auto memory = shared_memory(sizeof(RobustMutex));
  auto& mutex = *new (memory.data()) RobustMutex;
  mutex.initialize();
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      mutex.lock();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(mutex.lock() == 0);
    mutex.unlock();
  }
  ::munmap(memory.data(), memory.size());
}

// A process of this worker that gets a signal in the middle of `work`, with the lock held: at a page that it must not
// touch.
template <int signal>
pid_t start_worker_that_fails(SharedModel& model, std::uint32_t worker, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::signal(SIGSEGV, [](int) { ::kill(::getpid(), signal); });
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(&model.parameters(worker).back()) / page * page;
  ::mprotect(reinterpret_cast<void*>(address), page, PROT_NONE);
  work();
  std::abort();
}

TEST_CASE("shared model: a worker that is killed while it joins has not joined") {
  const auto count = static_cast<std::size_t>(4 * ::sysconf(_SC_PAGESIZE));
  Fixture shared({kPlain, Sharing::kAdPsgd, false, 2, count});
  shared.model.join(0);
  shared.model.apply(0, std::vector<float>(count, -1), 0);
  const pid_t child = start_worker_that_fails<SIGKILL>(shared.model, 1, [&] { shared.model.join(1); });
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK_FALSE(shared.model.average(0, 1));
  const std::vector<float> ones(count, 1);
  std::vector<float> seen(count);
  shared.model.read_into(seen);
  CHECK(seen == ones);
  CHECK(shared.model.state().joined == std::vector<std::uint8_t>{1, 0});
  shared.model.join(1);
  shared.model.read_into(seen, 1);
  CHECK(seen == ones);
}

TEST_CASE("shared model: a worker that was stopped with the lock held does not block one who supervises") {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (const Sharing sharing : {Sharing::kLock, Sharing::kAdPsgd}) {
    Fixture shared({kPlain, sharing, false, 1, 4 * page});
    shared.model.join(0);
    const auto update = [&] { shared.model.apply(0, std::vector<float>(4 * page, 1), 0); };
    const pid_t child = start_worker_that_fails<SIGSTOP>(shared.model, 0, update);
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
    REQUIRE(WIFSTOPPED(status));
    std::vector<float> seen(4 * page);
    shared.model.read_into(seen);
    CHECK(seen.front() == -1);
    CHECK(seen.back() == 0);
    CHECK(shared.model.state().parameters == seen);
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(shared.model.read_into(seen, 0) == shared.model.version());
  }
}

TEST_CASE("shared model: the mean of two, and of all") {
  Fixture shared({kPlain, Sharing::kAdPsgd, false, 3, 1});
  std::vector<float> out(1);
  shared.model.join(0);
  shared.model.apply(0, std::vector<float>{-4}, 0);
  shared.model.join(1);
  CHECK(shared.model.parameters(1)[0] == 4);
  shared.model.apply(1, std::vector<float>{-4}, 1);
  CHECK(shared.model.read_into(out) == 2);
  CHECK(out[0] == 6);
  CHECK_FALSE(shared.model.average(0, 2));
  CHECK(shared.model.average(1, 0));
  CHECK(shared.model.parameters(0)[0] == 6);
  CHECK(shared.model.parameters(1)[0] == 6);
  check_error(ErrorKind::kInvalid, "worker 2 is absent", [&] { shared.model.apply(2, out, 0); });
  check_error(ErrorKind::kInvalid, "neighbor is 1", [&] { shared.model.average(1, 1); });
}

TEST_CASE("shared model: after a load, the state still names the workers that had joined") {
  Fixture shared({kPlain, Sharing::kAdPsgd, false, 2, 1});
  shared.model.join(0);
  shared.model.load(shared.model.state());
  CHECK(shared.model.state().joined == std::vector<std::uint8_t>{1, 0});
}

TEST_CASE("shared model: memory without a model is refused") {
  std::vector<std::byte> memory(1 << 16);
  check_error(ErrorKind::kInvalid, "there is none in this memory", [&] { SharedModel{memory}; });
  check_error(ErrorKind::kInvalid, "there is none in this memory", [&] { SharedModel{std::span(memory).first(8)}; });
  check_error(ErrorKind::kInvalid, "there is none in this memory", [&] { SharedModel{std::span<std::byte>{}}; });
  const SharedModelOptions options{kPlain, Sharing::kLock, false, 1, kSize};
  const auto whole = shared_memory(SharedModel::bytes(options));
  SharedModel::format(whole, options, std::vector<float>(kSize));
  check_error(ErrorKind::kInvalid, "there is none", [&] { SharedModel{whole.first(whole.size() - 1)}; });
  CHECK(SharedModel{whole}.version() == 0);
  ::munmap(whole.data(), whole.size());
}

TEST_CASE("shared model: state of another size is refused, and changes nothing") {
  Fixture shared({OptimizerOptions{}, Sharing::kLock, false, 1, kSize});
  auto state = shared.model.state();
  state.version = 7;
  state.moments.pop_back();
  check_error(ErrorKind::kInvalid, "the length of moments is 1999, but it must be 2000",
              [&] { shared.model.load(state); });
  CHECK(shared.model.version() == 0);
}

}  // namespace
}  // namespace headrace
