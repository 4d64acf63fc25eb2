#include "core/memory_budget.h"

#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

TEST_CASE("memory budget: shares are taken up to the limit and given back when they end") {
  MemoryBudget budget(100);
  CHECK(budget.limit() == 100);
  {
    auto share = budget.try_take(60);
    REQUIRE(share);
    CHECK(share->bytes() == 60);
    CHECK_FALSE(budget.try_take(41));
    CHECK(budget.try_take(40));  // and given back at once
    CHECK(budget.used() == 60);
    MemoryBudget::Share moved = std::move(*share);
    share.reset();
    CHECK(budget.used() == 60);
    moved.add(budget.take(10, "more"));
    CHECK(moved.bytes() == 70);
    moved.add({});
    CHECK(budget.used() == 70);
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("memory budget: a refusal states the purpose, the request and the limit") {
  MemoryBudget budget(100);
  const auto held = budget.take(30, "table \"replay\"");
  check_error(ErrorKind::kRefused, "table \"expert\" needs 71 bytes, but 30 of the memory budget of 100 are in use",
              [&] { budget.take(71, "table \"expert\""); });
  CHECK_FALSE(budget.try_take(~std::uint64_t{0}));  // no sum overflows
  CHECK(budget.used() == 30);
}

TEST_CASE("memory budget: many threads never exceed the limit") {
  MemoryBudget budget(10);
  std::vector<std::thread> threads;
  std::atomic<int> taken = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20'000; ++round) {
        const auto share = budget.try_take(4);
        if (!share) continue;
        CHECK(++taken <= 2);
        --taken;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(budget.used() == 0);
}

TEST_CASE("memory budget: a share that shrinks gives the rest back") {
  MemoryBudget budget(100);
  {
    auto share = budget.take(60, "table");
    share.shrink(80);
    CHECK(share.bytes() == 60);
    share.shrink(25);
    CHECK(share.bytes() == 25);
    CHECK(budget.used() == 25);
    MemoryBudget::Share none;
    none.shrink(0);
  }
  CHECK(budget.used() == 0);
}

}  // namespace
}  // namespace headrace
