#include "core/table.h"

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;
using fixtures::soon;

TableOptions small_options(std::uint64_t capacity, Sampler sampler = Sampler::kPrioritized) {
  return {.signature = small_signature(), .capacity = capacity, .sampler = sampler, .seed = 1};
}

std::vector<std::byte> chunk_of(std::uint32_t steps, float priority = 1, float tag = 0) {
  return PlainChunk::of(steps, priority, tag).bytes(small_signature());
}

// Sum over slots of (found - expected)^2 / expected, for draws of one transition each.
double chi_square(Table& table, int draws, const std::vector<double>& expected) {
  std::vector<double> found(expected.size());
  Buffers buffers(small_signature(), 1);
  for (int i = 0; i < draws; ++i) {
    REQUIRE(table.try_sample(buffers.view, 0));
    ++found[buffers.key[0] % expected.size()];
  }
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double wanted = expected[i] * draws;
    sum += (found[i] - wanted) * (found[i] - wanted) / wanted;
  }
  return sum;
}

std::vector<double> shares(const std::vector<float>& priorities, double exponent) {
  std::vector<double> result;
  double total = 0;
  for (const float priority : priorities) total += result.emplace_back(std::pow(priority, exponent));
  for (double& share : result) share /= total;
  return result;
}

TEST_CASE("table: sampling frequencies follow p^alpha") {
  constexpr double kCritical = 103.4;  // chi-square, 63 degrees of freedom, 99.9 %
  for (const double alpha : {0.6, 1.0}) {
    CAPTURE(alpha);
    TableOptions options = small_options(64);
    options.priority_exponent = alpha;
    Table table(options);
    PlainChunk chunk = PlainChunk::of(64, 1);
    for (std::size_t i = 0; i < 64; ++i) chunk.priority[i] = 0.25f + static_cast<float>(i * 7 % 64);
    REQUIRE(table.try_insert(chunk.bytes(small_signature())) == 0);
    CHECK(chi_square(table, 100'000, shares(chunk.priority, alpha)) < kCritical);
    CHECK(chi_square(table, 100'000, shares(chunk.priority, alpha - 0.1)) > kCritical);  // it can tell
    // The same again after the priorities are turned around by updates.
    std::vector<std::uint64_t> keys(64);
    for (std::size_t i = 0; i < 64; ++i) keys[i] = i;
    std::reverse(chunk.priority.begin(), chunk.priority.end());
    CHECK(table.update_priorities(keys, chunk.priority) == 64);
    CHECK(chi_square(table, 100'000, shares(chunk.priority, alpha)) < kCritical);
  }
}

TEST_CASE("table: uniform sampling is uniform, with weights of 1") {
  Table table(small_options(64, Sampler::kUniform));
  PlainChunk chunk = PlainChunk::of(48, 1);
  for (std::size_t i = 0; i < 48; ++i) chunk.priority[i] = static_cast<float>(i);
  table.try_insert(chunk.bytes(small_signature()));
  CHECK(chi_square(table, 100'000, std::vector<double>(48, 1.0 / 48)) < 82.7);  // 47 degrees of freedom, 99.9 %
  Buffers buffers(small_signature(), 48);
  REQUIRE(table.try_sample(buffers.view, 1.0));
  for (std::uint64_t i = 0; i < 48; ++i) {
    CHECK(buffers.key[i] == i);  // stratified: one of each
    CHECK(buffers.probability[i] == doctest::Approx(1.0 / 48));
    CHECK(buffers.weight[i] == 1.0f);
  }
}

TEST_CASE("table: probability and importance weight, worked by hand") {
  TableOptions options = small_options(4);
  options.priority_exponent = 0.5;
  Table table(options);
  PlainChunk chunk = PlainChunk::of(4, 1);
  chunk.priority = {1, 4, 9, 16};  // leaves 1, 2, 3, 4 of 10
  table.try_insert(chunk.bytes(small_signature()));
  Buffers buffers(small_signature(), 10);  // one in each tenth: 0, 1, 1, 2, 2, 2, 3, 3, 3, 3
  REQUIRE(table.try_sample(buffers.view, 0.5));
  CHECK(buffers.key == std::vector<std::uint64_t>{0, 1, 1, 2, 2, 2, 3, 3, 3, 3});
  CHECK(buffers.probability[0] == doctest::Approx(0.1));
  CHECK(buffers.probability[9] == doctest::Approx(0.4));
  CHECK(buffers.weight[0] == 1.0f);                         // (4 * 0.1)^-1/2, the largest
  CHECK(buffers.weight[3] == doctest::Approx(0.57735027));  // (1/3)^1/2
  CHECK(buffers.weight[9] == doctest::Approx(0.5));         // (1/4)^1/2
}

TEST_CASE("table: stacks are clamped only at the start of an episode") {
  const Signature signature = small_signature(3);
  Table table({.signature = signature, .capacity = 8, .sampler = Sampler::kUniform});
  PlainChunk chunk = PlainChunk::of(4, 1, 7);
  chunk.first = {0, 1, 2, 3};
  chunk.last = {1, 2, 3, 4};
  chunk.policy_version = {42, 42, 1, 43};
  table.try_insert(chunk.bytes(signature));
  Buffers buffers(signature, 4);
  REQUIRE(table.try_sample(buffers.view, 0));
  const auto rows = [](const std::vector<std::byte>& bytes, std::size_t index) {
    std::vector<float> numbers;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(Buffers::value<float>(bytes, (index * 3 + i) * 2) == 7);
      numbers.push_back(Buffers::value<float>(bytes, (index * 3 + i) * 2 + 1));
    }
    return numbers;
  };
  CHECK(rows(buffers.observation, 0) == std::vector<float>{0, 0, 0});
  CHECK(rows(buffers.next_observation, 0) == std::vector<float>{0, 0, 1});
  CHECK(rows(buffers.observation, 1) == std::vector<float>{0, 0, 1});
  CHECK(rows(buffers.next_observation, 1) == std::vector<float>{0, 1, 2});
  CHECK(rows(buffers.observation, 3) == std::vector<float>{1, 2, 3});
  CHECK(rows(buffers.next_observation, 3) == std::vector<float>{2, 3, 4});
  CHECK(buffers.policy_version == std::vector<std::uint64_t>{42, 42, 1, 43});
  CHECK(Buffers::value<std::int32_t>(buffers.action, 2) == 9);
  CHECK(buffers.reward[2] == 9);
  CHECK(buffers.discount[2] == 0.5f);
}

TEST_CASE("table: an update for an overwritten transition is dropped, never applied to its successor") {
  Table table(small_options(10));
  table.try_insert(chunk_of(5));                  // keys 0..4
  table.try_insert(chunk_of(5));                  // keys 5..9
  CHECK(table.try_insert(chunk_of(5, 2)) == 10);  // over 0..4, same slots
  const std::vector<std::uint64_t> keys = {0, 4, 5, 10, 15, 1'000'000};
  CHECK(table.update_priorities(keys, std::vector<float>(6, 32)) == 2);
  const TableStats stats = table.stats();
  CHECK(stats.updates == 2);
  CHECK(stats.dropped_updates == 4);
  CHECK(stats.max_priority == 32);
  CHECK(stats.evicted == 5);
  CHECK(stats.total_weight == doctest::Approx(4 + 4 * std::pow(2, 0.6) + 2 * std::pow(32, 0.6)));
}

TEST_CASE("table: the largest priority goes with the transition that had it") {
  Table table(small_options(10));
  CHECK(table.stats().max_priority == 1);
  table.try_insert(chunk_of(5));
  table.update_priorities(std::vector<std::uint64_t>{3}, std::vector<float>{3e38f});
  CHECK(table.stats().max_priority == 3e38f);
  table.update_priorities(std::vector<std::uint64_t>{3}, std::vector<float>{0.5f});  // the learner lowers it
  CHECK(table.stats().max_priority == 1);
  table.update_priorities(std::vector<std::uint64_t>{0, 1, 2, 3, 4}, std::vector<float>(5, 0.25f));
  table.update_priorities(std::vector<std::uint64_t>{4}, std::vector<float>{64});
  table.try_insert(chunk_of(5, kUnknownPriority));
  CHECK(table.stats().total_weight == doctest::Approx(4 * std::pow(0.25, 0.6) + 6 * std::pow(64, 0.6)));
  table.update_priorities(std::vector<std::uint64_t>{5, 6, 7, 8, 9}, std::vector<float>(5, 2));
  table.try_insert(chunk_of(5, kUnknownPriority));  // over the one that had 64
  CHECK(table.stats().max_priority == 2);
}

TEST_CASE("table: unknown priorities take the largest of what is stored") {
  Table table(small_options(100));
  table.try_insert(chunk_of(1, kUnknownPriority));
  CHECK(table.stats().total_weight == 1);
  table.try_insert(chunk_of(1, 32));
  table.update_priorities(std::vector<std::uint64_t>{1}, std::vector<float>{0});
  table.try_insert(chunk_of(1, kUnknownPriority));
  // 1, 10^-6 for the priority 0, and 1, the largest that is left, each to the power of 0.6.
  CHECK(table.stats().total_weight == doctest::Approx(2 + std::pow(1e-6, 0.6)).epsilon(1e-6));
}

TEST_CASE("table: weights beyond the range of floats are exact, at the largest exponent") {
  TableOptions options = small_options(10);
  options.priority_exponent = 4;
  Table table(options);
  table.try_insert(chunk_of(1, 1e10f));
  CHECK(table.stats().total_weight == doctest::Approx(1e40));
  Buffers buffers(small_signature(), 2);
  CHECK(table.try_sample(buffers.view, 0.4));
  CHECK(buffers.probability[0] == 1);
}

TEST_CASE("table: invalid priorities change nothing") {
  Table table(small_options(100));
  table.try_insert(chunk_of(2));
  const std::vector<std::uint64_t> keys = {0, 1};
  const auto update = [&](std::vector<float> priorities) { table.update_priorities(keys, priorities); };
  check_error(ErrorKind::kInvalid, "priorities[1]", [&] { update({5, -1}); });
  check_error(ErrorKind::kInvalid, "priorities[1]", [&] { update({5, std::nanf("")}); });
  check_error(ErrorKind::kInvalid, "1 values for 2 keys", [&] { update({5}); });
  CHECK(table.stats().total_weight == 2);
}

TEST_CASE("table: invalid chunks and options are refused") {
  Table table(small_options(10));
  check_error(ErrorKind::kChunkRefused, "capacity is 10", [&] { table.try_insert(chunk_of(11)); });
  TableOptions narrow = small_options(1000);
  narrow.capacity_bytes = 1024;
  Table small(narrow);
  check_error(ErrorKind::kChunkRefused, "capacity_bytes is 1024", [&] { small.try_insert(chunk_of(100)); });
  check_error(ErrorKind::kChunkRefused, "chunk.bytes", [&] { table.try_insert({}); });
  const auto rejects = [](const char* name, auto&& change) {
    TableOptions options = small_options(10);
    change(options);
    check_error(ErrorKind::kInvalid, name, [&] { Table{options}; });
  };
  rejects("capacity", [](TableOptions& o) { o.capacity = 0; });
  rejects("capacity_bytes", [](TableOptions& o) { o.capacity_bytes = 100; });
  rejects("priority_exponent", [](TableOptions& o) { o.priority_exponent = -0.1; });
  rejects("priority_exponent", [](TableOptions& o) { o.priority_exponent = std::nan(""); });
  rejects("min_size", [](TableOptions& o) { o.limiter.min_size = 11; });
  rejects("stack", [](TableOptions& o) { o.signature.stack = 0; });
  Buffers buffers(small_signature(), 4);
  check_error(ErrorKind::kInvalid, "importance_exponent", [&] { table.try_sample(buffers.view, -1); });
  check_error(ErrorKind::kInvalid, "batch size", [&] { table.try_sample(BatchView{}, 0); });
}

TEST_CASE("table: the default budget holds the capacity, in long chunks and in short ones") {
  for (const std::uint32_t steps : {8u, 50u}) {
    Table table(small_options(10'000));
    for (std::uint32_t i = 0; i < 20'000 / steps; ++i) table.try_insert(chunk_of(steps));
    CHECK(table.size() > 10'000 - steps);
  }
}

TEST_CASE("table: the limiter blocks both sides, and wakes wakers and waiters when it allows them") {
  TableOptions options = small_options(1000);
  options.limiter = {.samples_per_insert = 1, .tolerance = 10, .min_size = 5};
  Table table(options);
  std::atomic<int> woken = 0;
  const std::uint64_t id = table.add_waker([&] {
    table.stats();  // no lock is held
    ++woken;
  });
  Buffers buffers(small_signature(), 10);
  CHECK_FALSE(table.try_sample(buffers.view, 0));
  CHECK_FALSE(table.sample(buffers.view, 0, soon(1)));
  table.try_insert(chunk_of(5));
  CHECK(woken == 1);
  CHECK(table.try_sample(buffers.view, 0));
  CHECK_FALSE(table.try_sample(buffers.view, 0));  // 10 ahead
  for (int i = 0; i < 5; ++i) CHECK(table.try_insert(chunk_of(5)));
  CHECK(woken == 2);                           // once, when a batch was allowed again
  CHECK_FALSE(table.try_insert(chunk_of(5)));  // 25 - 10 > 10
  CHECK_FALSE(table.insert(chunk_of(5), soon(1)));
  std::thread learner([&] { CHECK(table.sample(buffers.view, 0, soon())); });
  CHECK(table.insert(chunk_of(5), soon()));
  learner.join();
  CHECK(woken == 3);
  CHECK(table.stats().insert_blocked_seconds > 0);
  CHECK(table.stats().samples_per_insert == doctest::Approx(20.0 / 30));
  table.remove_waker(id);
  table.close();
  CHECK(woken == 3);
}

TEST_CASE("table: wakers are called as soon as the smallest refused batch is allowed") {
  TableOptions options = small_options(1000);
  options.limiter = {.samples_per_insert = 1, .tolerance = 100, .min_size = 5};
  Table table(options);
  int woken = 0;
  table.add_waker([&] { ++woken; });
  table.try_insert(chunk_of(5));
  Buffers all(small_signature(), 100), large(small_signature(), 50), small(small_signature(), 10);
  REQUIRE(table.try_sample(all.view, 0));
  CHECK_FALSE(table.try_sample(large.view, 0));
  CHECK_FALSE(table.try_sample(small.view, 0));
  table.try_insert(chunk_of(9));  // 100 + 10 - 9 > 100
  CHECK(woken == 0);
  table.try_insert(chunk_of(1));
  CHECK(woken == 1);
  CHECK_FALSE(table.try_sample(large.view, 0));
  CHECK(table.try_sample(small.view, 0));
}

TEST_CASE("table: pausing blocks only inserts") {
  Table table(small_options(100));
  table.try_insert(chunk_of(5));
  int woken = 0;
  table.add_waker([&] { ++woken; });
  table.set_paused(true);
  CHECK_FALSE(table.try_insert(chunk_of(5)));
  Buffers buffers(small_signature(), 4);
  CHECK(table.try_sample(buffers.view, 0));
  CHECK(woken == 0);
  table.set_paused(false);
  CHECK(woken == 1);
  CHECK(table.try_insert(chunk_of(5)) == 5);
}

TEST_CASE("table: the time for which inserts were held counts from the first refusal, and adds up") {
  constexpr double kSeconds = 0.01;
  Table table(small_options(100));
  for (int i = 1; i <= 2; ++i) {
    table.set_paused(true);
    CHECK_FALSE(table.try_insert(chunk_of(1)));
    std::this_thread::sleep_for(std::chrono::duration<double>(kSeconds));
    CHECK_FALSE(table.try_insert(chunk_of(1)));
    table.set_paused(false);
    CHECK(table.stats().insert_blocked_seconds >= i * kSeconds);
  }
}

TEST_CASE("table: closing wakes all waiters") {
  Table table(small_options(100));
  std::atomic<int> woken = 0;
  table.add_waker([&] { ++woken; });
  Buffers buffers(small_signature(), 4);
  std::thread learner(
      [&] { check_error(ErrorKind::kClosed, "closed", [&] { table.sample(buffers.view, 0, never()); }); });
  table.close();
  learner.join();
  CHECK(woken == 1);
  check_error(ErrorKind::kClosed, "closed", [&] { table.try_insert(chunk_of(1)); });
  check_error(ErrorKind::kClosed, "closed", [&] { table.update_priorities({}, {}); });
  CHECK(table.size() == 0);
}

TEST_CASE("table: a file keeps chunks, keys and priorities across a restart") {
  const ScratchFolder folder;
  TableOptions options = small_options(20);
  options.capacity_bytes = 4096;
  options.path = folder.file("replay");
  double total = 0;
  {
    Table table(options);
    for (int i = 0; i < 6; ++i) table.try_insert(chunk_of(5, 2, static_cast<float>(i)));  // keys 10..29 stay
    table.update_priorities(std::vector<std::uint64_t>{12, 28}, std::vector<float>{0.5, 9});
    total = table.stats().total_weight;
  }
  {
    Table table(options);
    CHECK(table.size() == 20);
    CHECK(table.stats().recovered == 20);
    CHECK(table.stats().total_weight == total);
    CHECK(table.stats().max_priority == 9);
    Buffers buffers(small_signature(), 64);
    REQUIRE(table.try_sample(buffers.view, 0));
    for (std::size_t i = 0; i < 64; ++i) {
      CHECK(buffers.reward[i] == static_cast<float>(buffers.key[i] / 5 + buffers.key[i] % 5));
    }
    CHECK(table.try_insert(chunk_of(5, kUnknownPriority)) == 30);
  }
  options.capacity = 12;  // fewer: the newest stay
  {
    Table table(options);
    CHECK(table.size() == 10);
    CHECK(table.update_priorities(std::vector<std::uint64_t>{24, 25, 34}, std::vector<float>{1, 1, 1}) == 2);
  }
  options.capacity = 4;
  check_error(ErrorKind::kMismatch, "a chunk of 5 steps, but capacity is 4", [&] { Table{options}; });
}

TEST_CASE("table: damaged priorities in a file become the largest of those that are intact") {
  const ScratchFolder folder;
  TableOptions options = small_options(20);
  options.priority_exponent = 1;
  options.capacity_bytes = 4096;
  options.path = folder.file("replay");
  const auto chunk = chunk_of(5, 3);
  {
    Table table(options);
    for (int i = 0; i < 2; ++i) table.try_insert(chunk);
  }
  {
    const std::size_t second = 8192 + (chunk.size() + 63) / 64 * 64;
    std::fstream file(options.path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(second + ChunkLayout::of(small_signature(), 5, 6).priority));
    for (std::size_t i = 0; i < 5 * sizeof(float); ++i) file.put('\xff');
  }
  const Table table(options);
  CHECK(table.size() == 10);
  CHECK(table.stats().total_weight == doctest::Approx(10 * 3));
}

}  // namespace
}  // namespace headrace
