#include "core/batch_ahead.h"

#include <algorithm>
#include <memory>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::small_signature;
using fixtures::soon;

struct Pool {
  explicit Pool(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::make_unique<Buffers>(small_signature(), 16));
  }
  std::vector<BatchView> views() const {
    std::vector<BatchView> result;
    for (const auto& buffers : all) result.push_back(buffers->view);
    return result;
  }
  std::vector<std::unique_ptr<Buffers>> all;
};

TableOptions seeded() { return {.signature = small_signature(), .capacity = 200, .seed = 8}; }

void fill(Table& table) {
  for (int i = 0; i < 4; ++i) {
    PlainChunk chunk = PlainChunk::of(50, 1, static_cast<float>(i));
    for (std::size_t t = 0; t < 50; ++t) chunk.priority[t] = static_cast<float>(t);
    table.try_insert(chunk.bytes(small_signature()));
  }
}

TEST_CASE("batch ahead: the same batches in the same order as sampling by hand") {
  Table table(seeded()), by_hand(seeded());
  fill(table);
  fill(by_hand);
  Pool pool(3);
  Buffers expected(small_signature(), 16);
  BatchAhead ahead(table, pool.views(), 0.4);
  for (int i = 0; i < 50; ++i) {
    const auto index = ahead.next(soon());
    REQUIRE(index);
    REQUIRE(by_hand.try_sample(expected.view, 0.4));
    REQUIRE(pool.all[*index]->same_as(expected));
    ahead.release(*index);
  }
}

TEST_CASE("batch ahead: a buffer that is not released is not touched") {
  Table table(seeded());
  fill(table);
  Pool pool(2);
  BatchAhead ahead(table, pool.views(), 0.4);
  const auto held = ahead.next(soon());
  REQUIRE(held);
  const std::vector<std::uint64_t> keys = pool.all[*held]->key;
  for (int i = 0; i < 20; ++i) {
    const auto index = ahead.next(soon());
    REQUIRE(index);
    REQUIRE(*index != *held);
    ahead.release(*index);
  }
  CHECK(pool.all[*held]->key == keys);
}

TEST_CASE("batch ahead: a new importance exponent applies to the batches drawn after it") {
  auto options = seeded();
  options.priority_exponent = 1;
  Table table(options);
  PlainChunk chunk = PlainChunk::of(2, 1);
  chunk.priority = {1, 4};
  table.try_insert(chunk.bytes(small_signature()));
  Pool pool(2);
  BatchAhead ahead(table, pool.views(), 0);
  for (std::size_t i = 0; i < 2; ++i) REQUIRE(ahead.next(soon()) == i);
  CHECK(*std::ranges::min_element(pool.all[0]->weight) == 1);
  ahead.set_importance_exponent(1);
  ahead.release(0);
  REQUIRE(ahead.next(soon()) == 0);
  CHECK(*std::ranges::min_element(pool.all[0]->weight) == doctest::Approx(0.25));
}

TEST_CASE("batch ahead: waits for an empty table, can be stopped while waiting, and rethrows errors") {
  Pool pool(2);
  {
    Table table(seeded());
    BatchAhead ahead(table, pool.views(), 0.4);
    CHECK_FALSE(ahead.next(soon(5)));
    fill(table);
    CHECK(ahead.next(soon()));
  }
  Table table(seeded());
  { const BatchAhead stopped_at_once(table, pool.views(), 0.4); }
  BatchAhead ahead(table, pool.views(), 0.4);
  table.close();
  check_error(ErrorKind::kClosed, "closed", [&] { ahead.next(soon()); });
  check_error(ErrorKind::kClosed, "closed", [&] { ahead.next(soon()); });
  check_error(ErrorKind::kInvalid, "at least 2", [&] { BatchAhead(table, Pool(1).views(), 0.4); });
  check_error(ErrorKind::kInvalid, "buffer index is 2", [&] { ahead.release(2); });
}

}  // namespace
}  // namespace headrace
