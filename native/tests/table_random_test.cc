#include "table_twin.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::PlainChunk;
using fixtures::small_signature;
using fixtures::TableTwin;

PlainChunk random_chunk(std::mt19937& random) {
  const std::uint32_t steps = 1 + random() % 12;
  PlainChunk chunk = PlainChunk::of(steps, 1, static_cast<float>(random() % 10'000));
  for (std::uint32_t extra = random() % 4; extra > 0; --extra)
    chunk.rows.push_back({1, static_cast<float>(random() % 99)});
  for (std::uint32_t t = 0; t < steps; ++t) {
    chunk.first[t] = random() % static_cast<std::uint32_t>(chunk.rows.size());
    chunk.last[t] = random() % static_cast<std::uint32_t>(chunk.rows.size());
    chunk.policy_version[t] = random() % 50;
    chunk.priority[t] = random() % 5 == 0 ? kUnknownPriority : static_cast<float>(random() % 1000) / 100;
  }
  return chunk;
}

void check_batch(const TableTwin& twin, const Buffers& buffers, std::uint32_t stack, double beta, bool prioritized) {
  const auto spans = twin.spans();
  double total = 0;
  for (const auto& [key, span] : spans) total = std::max(total, span.second);
  double largest = 0;
  const auto importance = [&](std::uint64_t key) {
    const double probability = twin.weight(twin.transitions().at(key)) / total;
    return std::pow(static_cast<double>(spans.size()) * probability, -beta);
  };
  for (const std::uint64_t key : buffers.key) {
    REQUIRE(twin.transitions().contains(key));
    largest = std::max(largest, importance(key));
  }
  const double stratum = total / static_cast<double>(buffers.key.size());
  for (std::size_t i = 0; i < buffers.key.size(); ++i) {
    const std::uint64_t key = buffers.key[i];
    const auto& wanted = twin.transitions().at(key);
    for (std::uint32_t k = 0; k < stack; ++k) {
      using Row = std::array<float, 2>;
      REQUIRE(Buffers::value<Row>(buffers.observation, i * stack + k) == wanted.observation[k]);
      REQUIRE(Buffers::value<Row>(buffers.next_observation, i * stack + k) == wanted.next_observation[k]);
    }
    REQUIRE(Buffers::value<std::int32_t>(buffers.action, i) == wanted.action);
    REQUIRE(buffers.reward[i] == wanted.reward);
    REQUIRE(buffers.discount[i] == wanted.discount);
    REQUIRE(buffers.policy_version[i] == wanted.policy_version);
    if (!prioritized) {
      REQUIRE(buffers.probability[i] == doctest::Approx(1.0 / static_cast<double>(spans.size())));
      continue;
    }
    const auto [before, after] = spans.at(key);
    const double slack = total * 1e-12;
    REQUIRE(after > static_cast<double>(i) * stratum - slack);
    REQUIRE(before < static_cast<double>(i + 1) * stratum + slack);
    REQUIRE(buffers.probability[i] == doctest::Approx((after - before) / total).epsilon(1e-5));
    REQUIRE(buffers.weight[i] == doctest::Approx(importance(key) / largest).epsilon(1e-5));
  }
}

void run_against_twin(unsigned seed, std::uint64_t capacity, std::uint64_t capacity_bytes, Sampler sampler) {
  std::mt19937 random(seed);
  const Signature signature = small_signature(1 + random() % 4);
  const bool prioritized = sampler == Sampler::kPrioritized;
  Table table({.signature = signature,
               .capacity = capacity,
               .capacity_bytes = capacity_bytes,
               .sampler = sampler,
               .priority_exponent = 0.7,
               .seed = seed});
  TableTwin twin(signature, capacity, table.stats().capacity_bytes, 0.7);
  for (int step = 0; step < 1500; ++step) {
    switch (random() % 3) {
      case 0: {
        const PlainChunk chunk = random_chunk(random);
        const auto bytes = chunk.bytes(signature);
        REQUIRE(table.try_insert(bytes) == twin.insert(chunk, bytes.size()));
        break;
      }
      case 1: {
        std::vector<std::uint64_t> keys(random() % 40);
        std::vector<float> priorities(keys.size());
        for (auto& key : keys)
          key = twin.next_key() + 5 - std::min<std::uint64_t>(twin.next_key(), random() % (capacity * 2));
        for (auto& priority : priorities) priority = static_cast<float>(random() % 1000) / 100;
        REQUIRE(table.update_priorities(keys, priorities) == twin.update(keys, priorities));
        break;
      }
      default: {
        Buffers buffers(signature, 1 + random() % 40);
        const double beta = static_cast<double>(random() % 11) / 10;
        REQUIRE(table.try_sample(buffers.view, beta) == !twin.transitions().empty());
        if (!twin.transitions().empty()) check_batch(twin, buffers, signature.stack, beta, prioritized);
      }
    }
    const TableStats stats = table.stats();
    REQUIRE(stats.size == twin.transitions().size());
    REQUIRE(stats.chunks == twin.chunks());
    REQUIRE(stats.max_priority == twin.max_priority());
  }
}

TEST_CASE("table: thousands of random operations against a naive twin, slots run out first") {
  for (unsigned seed = 1; seed <= 4; ++seed) run_against_twin(seed, 20 + 17 * seed, 0, Sampler::kPrioritized);
  run_against_twin(9, 64, 0, Sampler::kUniform);
}

TEST_CASE("table: thousands of random operations against a naive twin, bytes run out first") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    run_against_twin(seed + 20, 1000, 1500 + 900 * seed, seed == 4 ? Sampler::kUniform : Sampler::kPrioritized);
  }
}

}  // namespace
}  // namespace headrace
