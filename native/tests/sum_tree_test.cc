#include "core/sum_tree.h"

#include <numeric>
#include <random>

#include "core_fixtures.h"

namespace headrace {
namespace {

// The definition, word for word.
std::uint64_t naive_find(const std::vector<double>& weights, double mass) {
  double sum = 0;
  std::uint64_t last_positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (weights[i] > 0) last_positive = i;
    if (mass < sum) return i;
  }
  return last_positive;
}

std::uint64_t find_one(const SumTree& tree, double mass) {
  std::uint64_t leaf = 0;
  tree.find({&mass, 1}, {&leaf, 1});
  return leaf;
}

TEST_CASE("sum tree: a hand-made tree") {
  SumTree tree(5);
  const std::vector<double> weights = {1, 0, 2, 4, 0};
  tree.set_range(0, weights);
  CHECK(tree.total() == 7);
  CHECK(find_one(tree, 0.0) == 0);
  CHECK(find_one(tree, 0.999) == 0);
  CHECK(find_one(tree, 1.0) == 2);  // leaf 1 weighs nothing
  CHECK(find_one(tree, 2.999) == 2);
  CHECK(find_one(tree, 3.0) == 3);
  CHECK(find_one(tree, 6.999) == 3);
  CHECK(find_one(tree, 7.0) == 3);  // beyond the end: the last of positive weight
  tree.set(3, 0.5);
  CHECK(tree.total() == 3.5);
  CHECK(tree.weight(3) == 0.5);
  CHECK(find_one(tree, 3.49) == 3);
}

// Whole-number weights add up exactly in any order, so tree and prefix sums must agree to the last bit.
TEST_CASE("sum tree: random operations against prefix sums") {
  for (const std::size_t capacity : {1u, 2u, 15u, 16u, 17u, 255u, 256u, 257u, 1000u, 5000u}) {
    CAPTURE(capacity);
    std::mt19937 random(static_cast<unsigned>(capacity));
    SumTree tree(capacity);
    std::vector<double> twin(capacity, 0.0);
    const auto below = [&](std::size_t bound) { return random() % bound; };
    const auto weight = [&] { return below(4) == 0 ? 0.0 : static_cast<double>(below(1000)); };
    for (int round = 0; round < 60; ++round) {
      const std::size_t begin = below(capacity);
      const std::size_t count = below(std::min<std::size_t>(capacity - begin, 200) + 1);
      std::vector<double> weights(count);
      std::vector<std::uint64_t> leaves(count);
      for (double& w : weights) w = weight();
      for (std::uint64_t& leaf : leaves) leaf = below(capacity);
      switch (below(4)) {
        case 0:
          tree.set_range(begin, weights);
          std::copy(weights.begin(), weights.end(), twin.begin() + static_cast<std::ptrdiff_t>(begin));
          break;
        case 1:
          tree.clear_range(begin, count);
          std::fill_n(twin.begin() + static_cast<std::ptrdiff_t>(begin), count, 0.0);
          break;
        case 2:
          tree.set_many(leaves, weights);
          for (std::size_t i = 0; i < count; ++i) twin[leaves[i]] = weights[i];
          break;
        default:
          tree.set(begin, twin[begin] = weight());
      }
      const double total = std::accumulate(twin.begin(), twin.end(), 0.0);
      REQUIRE(tree.total() == total);
      if (total == 0) continue;
      std::vector<double> masses;
      for (int i = 0; i < 100; ++i)
        masses.push_back(static_cast<double>(below(static_cast<std::size_t>(total * 4))) / 4);
      masses.push_back(0);
      masses.push_back(std::nextafter(total, 0.0));
      masses.push_back(total);
      std::vector<std::uint64_t> found(masses.size());
      tree.find(masses, found);
      for (std::size_t i = 0; i < masses.size(); ++i) REQUIRE(found[i] == naive_find(twin, masses[i]));
    }
  }
}

TEST_CASE("sum tree: sums depend only on the weights, not on the order of updates") {
  constexpr std::size_t kCapacity = 3000;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0, 1);
  SumTree scattered(kCapacity);
  std::vector<double> weights(kCapacity);
  for (int i = 0; i < 20000; ++i) {
    const std::size_t leaf = random() % kCapacity;
    scattered.set(leaf, weights[leaf] = uniform(random) * 1e-3);
  }
  SumTree rebuilt(kCapacity);
  rebuilt.set_range(0, weights);
  CHECK(scattered.total() == rebuilt.total());
  for (int i = 0; i < 1000; ++i) {
    const double mass = uniform(random) * rebuilt.total();
    REQUIRE(find_one(scattered, mass) == find_one(rebuilt, mass));
  }
}

TEST_CASE("sum tree: rounding never finds a leaf of weight 0") {
  // Weights of very different size: the running sums lose the small ones.
  SumTree tree(40);
  for (std::size_t leaf = 0; leaf < 40; leaf += 3) tree.set(leaf, leaf % 2 == 0 ? 1e-9 : 1e9 / 3);
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const double mass = std::uniform_real_distribution<double>(0, tree.total())(random);
    REQUIRE(tree.weight(find_one(tree, mass)) > 0);
  }
  REQUIRE(tree.weight(find_one(tree, tree.total() * 2)) > 0);
}

}  // namespace
}  // namespace headrace
