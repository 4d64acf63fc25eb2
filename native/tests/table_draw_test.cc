// Batches of many keys: drawn some thousand at a time, with other calls between.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core_fixtures.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;
using headrace::fixtures::Buffers;

namespace {

constexpr std::uint32_t kBatch = 10'000;
constexpr std::uint32_t kAtATime = 4096;
constexpr double kExponent = 0.5;

}  // namespace

TEST_CASE("other calls come between the keys of a large batch, and each keeps the probability it was drawn with") {
  Table table(small_table());
  REQUIRE(table.try_insert(chunk_of(100)));
  Buffers batch(small_signature(), kBatch);
  const auto draw = table.try_draw(batch.view, kExponent);
  REQUIRE(draw);
  REQUIRE(table.try_insert(chunk_of(100)));  // whose transitions get priority 1, as the first did
  int turns = 1;
  while (!draw->gather(kBatch)) ++turns;
  CHECK(turns == 5);  // three parts, of which two are drawn later

  for (std::uint32_t i = 0; i < kBatch; ++i) {
    const bool before = i < kAtATime;
    CAPTURE(i);
    REQUIRE(batch.key[i] == std::uint64_t{i} * (before ? 100 : 200) / kBatch);  // all weigh 1: the i-th of B parts
    REQUIRE(batch.probability[i] == doctest::Approx(before ? 0.01 : 0.005));
    REQUIRE(batch.weight[i] == doctest::Approx(std::pow(before ? 0.5 : 1.0, kExponent)));
    REQUIRE(batch.reward[i] == static_cast<float>(batch.key[i] % 100) + 0.5f);
  }
}

TEST_CASE("an insert waits only for the part of a large batch whose transitions it overwrites") {
  auto options = small_table();
  options.capacity = kBatch;
  Table table(options);
  for (std::uint32_t i = 0; i < kBatch / 100; ++i) REQUIRE(table.try_insert(chunk_of(100)));
  Buffers batch(small_signature(), kBatch);
  const auto draw = table.try_draw(batch.view, kExponent);
  REQUIRE(draw);
  CHECK_FALSE(table.try_insert(chunk_of(100)));
  CHECK_FALSE(draw->gather(kBatch));
  CHECK_FALSE(table.try_insert(chunk_of(100)));
  CHECK_FALSE(draw->gather(kBatch));  // which draws the next part
  CHECK(table.try_insert(chunk_of(100)));
  while (!draw->gather(kBatch)) {
  }
  for (std::uint32_t i = 0; i < kBatch; ++i) {
    REQUIRE(batch.reward[i] == static_cast<float>(batch.key[i] % 100) + 0.5f);
  }
}

TEST_CASE("a large batch is complete even if one insert takes the place of all that is stored") {
  auto options = small_table();
  options.capacity = 100;
  Table table(options);
  REQUIRE(table.try_insert(chunk_of(100)));
  Buffers batch(small_signature(), kBatch);
  auto draw = table.try_draw(batch.view, kExponent);
  REQUIRE(draw);
  CHECK_FALSE(table.try_insert(chunk_of(100)));  // it waits for the batch
  while (!draw->gather(kBatch)) {
  }
  CHECK(*std::ranges::max_element(batch.key) < 100);
  for (std::uint32_t i = 0; i < kBatch; ++i) {
    REQUIRE(batch.reward[i] == static_cast<float>(batch.key[i]) + 0.5f);
    REQUIRE(batch.probability[i] == doctest::Approx(0.01));
    REQUIRE(batch.weight[i] == doctest::Approx(1));
  }
  draw.reset();
  CHECK(table.try_insert(chunk_of(100)) == 100);
}

TEST_CASE("an insert waits for the oldest transition of a batch, even if that is not the first in the ring") {
  auto options = small_table();
  options.capacity = 10;
  Table table(options);
  for (int i = 0; i < 3; ++i) REQUIRE(table.try_insert(chunk_of(5)));  // the third takes the place of the first
  Buffers batch(small_signature(), 10);
  auto draw = table.try_draw(batch.view, kExponent);
  REQUIRE(draw);
  CHECK_FALSE(table.try_insert(chunk_of(5)));
  while (!draw->gather(10)) {
  }
  draw.reset();
  CHECK(table.try_insert(chunk_of(5)) == 15);
}
