#include <limits>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::small_signature;

TEST_CASE("table options: as text and back") {
  const TableOptions options{.signature = {{"uint8", {84, 84}}, {"int64", {}}, 4},
                             .capacity = 1'000'000,
                             .capacity_bytes = 123'456'789,
                             .sampler = Sampler::kUniform,
                             .priority_exponent = 0.6,
                             .limiter = {.samples_per_insert = 32, .tolerance = 0.1, .min_size = 5},
                             .seed = std::numeric_limits<std::uint64_t>::max(),
                             .path = "not part of it"};
  CHECK(options.encode() ==
        "capacity=1000000;capacity_bytes=123456789;sampler=uniform;priority_exponent=0.6;samples_per_insert=32;"
        "tolerance=0.1;min_size=5;seed=18446744073709551615\n"
        "observation=uint8[84,84];action=int64[];stack=4");
  const TableOptions read = TableOptions::decode(options.encode());
  CHECK(read.signature == options.signature);
  CHECK(read.capacity == options.capacity);
  CHECK(read.capacity_bytes == options.capacity_bytes);
  CHECK(read.sampler == Sampler::kUniform);
  CHECK(read.limiter.min_size == 5);
  CHECK(read.seed == options.seed);
  CHECK(read.path.empty());
  CHECK(read.encode() == options.encode());
}

TEST_CASE("table options: numbers round-trip exactly") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    TableOptions options{.signature = small_signature()};
    options.priority_exponent = std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 150);
    options.limiter.samples_per_insert = 1.0 / static_cast<double>(1 + random() % 1000);
    options.limiter.tolerance = static_cast<double>(random() >> 11) * 0x1.0p-53;
    const TableOptions read = TableOptions::decode(options.encode());
    REQUIRE(read.priority_exponent == options.priority_exponent);
    REQUIRE(read.limiter.samples_per_insert == options.limiter.samples_per_insert);
    REQUIRE(read.limiter.tolerance == options.limiter.tolerance);
  }
}

TEST_CASE("table options: invalid text is refused, naming the field") {
  const std::string text = TableOptions{.signature = small_signature()}.encode();
  const auto refused = [&](const std::string& part, const std::string& instead, const std::string& named) {
    std::string changed = text;
    REQUIRE(changed.find(part) != std::string::npos);
    changed.replace(changed.find(part), part.size(), instead);
    check_error(ErrorKind::kCorrupt, named, [&] { TableOptions::decode(changed); });
  };
  refused("capacity=1000000", "capacity=-1", "capacity is \"-1\"");
  refused("capacity=1000000", "capacity=1e6", "capacity");
  refused("capacity=1000000", "capacity=99999999999999999999", "capacity");
  refused("capacity_bytes=0", "capacity_bytes=", "capacity_bytes");
  refused("capacity=1000000;", "", "capacity");
  refused("sampler=prioritized", "sampler=best", "sampler is \"best\"");
  refused("priority_exponent=0.6", "priority_exponent=0.6x", "priority_exponent");
  refused("seed=0", "seed=0;more=1", "more=1");
  refused("\n", ";", "two lines");
  refused("stack=1", "stack=0", "stack");
  refused("float32", "float33", "dtype");
  check_error(ErrorKind::kCorrupt, "two lines", [] { TableOptions::decode(""); });
}

// Damaged text is refused or gives options; whether a table can be made of them is then the table's business.
TEST_CASE("table options: mutated text is refused or valid") {
  const std::string text = TableOptions{.signature = small_signature()}.encode();
  std::mt19937 random(3);
  int read = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string changed = text;
    for (unsigned i = 0, n = 1 + random() % 3; i < n; ++i)
      changed[random() % changed.size()] = char(32 + random() % 96);
    if (random() % 4 == 0) changed.resize(random() % changed.size());
    try {
      const TableOptions options = TableOptions::decode(changed);
      ++read;
      Table::memory_bytes(options);
    } catch (const Error& error) {
      REQUIRE((error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInvalid));
    }
  }
  CHECK(read > 50);
}

TEST_CASE("table options: the memory of a table, worked by hand") {
  TableOptions options{.signature = small_signature(), .capacity = 100, .capacity_bytes = 6400};
  // A slot of 8 bytes each; trees of sums and of maxima, of 112 leaves (whole nodes of 16) and 16 above; 1,024 writers.
  CHECK(Table::memory_bytes(options) == 6400 + 100 * 8 + (112 + 16) * (8 + 4) + 1024 * 128);
  CHECK(Table(options).memory_bytes() == Table::memory_bytes(options));
  options.sampler = Sampler::kUniform;
  CHECK(Table::memory_bytes(options) == 6400 + 100 * 8 + (112 + 16) * 4 + 1024 * 128);
  options.capacity = 100'000;
  const std::uint64_t maxima = (100'000 + 6'256 + 400 + 32 + 16) * 4;
  CHECK(Table::memory_bytes(options) == 6400 + 100'000 * 8 + maxima + 65'536 * 128);
  options = {.signature = {{"uint8", {1u << 30}}, {"int32", {}}, 1}, .capacity = std::uint64_t{1} << 40};
  check_error(ErrorKind::kInvalid, "capacity_bytes", [&] { Table::memory_bytes(options); });  // no sum overflows
}

}  // namespace
}  // namespace headrace
