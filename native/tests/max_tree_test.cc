#include "core/max_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

using namespace headrace;

TEST_CASE("the maximum rises and falls with the leaves") {
  MaxTree tree(40);
  CHECK(tree.max() == 0);
  tree.set_range(15, std::array{2.0f, 7.0f, 3.0f});  // over two nodes
  CHECK(tree.max() == 7);
  tree.set_many(std::array<std::uint64_t, 3>{16, 39, 16}, std::array{9.0f, 4.0f, 1.0f});  // the last value counts
  CHECK(tree.max() == 4);
  tree.clear_range(39, 1);
  CHECK(tree.max() == 3);
  tree.clear_range(0, 40);
  CHECK(tree.max() == 0);
}

TEST_CASE("trees of every height agree with a plain maximum") {
  std::mt19937 random(1);
  for (const std::size_t capacity : {1u, 2u, 16u, 17u, 256u, 257u, 5000u}) {
    CAPTURE(capacity);
    MaxTree tree(capacity);
    std::vector<float> plain(capacity, 0.0f);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::uint64_t> leaves;
      std::vector<float> values;
      for (std::size_t i = random() % 20; i > 0; --i) {
        leaves.push_back(random() % capacity);
        values.push_back(static_cast<float>(random() % 100));
        plain[leaves.back()] = values.back();
      }
      tree.set_many(leaves, values);
      REQUIRE(tree.max() == *std::ranges::max_element(plain));
      const std::size_t begin = random() % capacity;
      const std::size_t count = random() % (capacity - begin + 1);
      std::fill_n(plain.begin() + static_cast<std::ptrdiff_t>(begin), count, 0.0f);
      tree.clear_range(begin, count);
      REQUIRE(tree.max() == *std::ranges::max_element(plain));
    }
  }
}

TEST_CASE("a tree takes the bytes that it says") {
  CHECK(MaxTree::memory_bytes(1) == 64);
  CHECK(MaxTree::memory_bytes(17) == 3 * 64);
  CHECK(MaxTree::memory_bytes(1 << 20) == 4 * ((1 << 20) + (1 << 16) + (1 << 12) + (1 << 8) + 16));
}
