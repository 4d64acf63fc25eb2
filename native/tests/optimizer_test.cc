#include "core/optimizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using Kind = OptimizerOptions::Kind;

constexpr std::array<Kind, 6> kKinds = {Kind::kSgd,     Kind::kMomentum, Kind::kRmsprop, Kind::kCenteredRmsprop,
                                        Kind::kAdagrad, Kind::kAdam};

std::vector<float> normal(std::size_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(size);
  for (auto& value : values) value = distribution(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>, std::bit_cast<std::uint32_t, float>);
}

TEST_CASE("optimizer: updating in pieces of any length is bit-identical") {
  constexpr std::size_t kSize = 1037;
  constexpr std::array<std::size_t, 7> kCuts = {0, 1, 18, 37, 101, 128, kSize};
  for (const Kind kind : kKinds) {
    CAPTURE(static_cast<int>(kind));
    const OptimizerOptions options{kind, 0.01};
    std::vector<float> whole = normal(kSize, 1), pieces = whole;
    std::vector<float> moments(options.moments() * kSize), piece_moments = moments;
    for (std::uint32_t step = 1; step <= 20; ++step) {
      const auto gradient = normal(kSize, step + 1);
      apply_gradient(options, step, whole, moments.data(), kSize, gradient);
      for (std::size_t i = 0; i + 1 < kCuts.size(); ++i) {
        const std::size_t begin = kCuts[i], size = kCuts[i + 1] - begin;
        apply_gradient(options, step, std::span(pieces).subspan(begin, size), piece_moments.data() + begin, kSize,
                       std::span(gradient).subspan(begin, size));
      }
    }
    CHECK(same_bits(whole, pieces));
    CHECK(same_bits(moments, piece_moments));
  }
}

// Two steps of each, with gradients 2 and then 4, from 1.
TEST_CASE("optimizer: two steps by hand") {
  const auto two_steps = [](OptimizerOptions options) {
    std::vector<float> parameters = {1}, moments(2);
    apply_gradient(options, 1, parameters, moments.data(), 1, std::vector<float>{2});
    apply_gradient(options, 2, parameters, moments.data(), 1, std::vector<float>{4});
    return parameters[0];
  };
  OptimizerOptions options{.learning_rate = 0.5, .decay = 0.5, .epsilon = 1, .beta1 = 0.5, .beta2 = 0.75};
  const auto is = [&](Kind kind, double expected) {
    CAPTURE(static_cast<int>(kind));
    options.kind = kind;
    CHECK(two_steps(options) == doctest::Approx(expected));
  };
  is(Kind::kSgd, 1 - 0.5 * 2 - 0.5 * 4);
  is(Kind::kMomentum, 1 - 0.5 * 2 - 0.5 * 5);  // 0.5 * 2 + 4
  // Squares 2, then 1 + 8 = 9.
  is(Kind::kRmsprop, 1 - 1 / (std::sqrt(2.0) + 1) - 2 / (3.0 + 1));
  // Means 1, then 0.5 + 2 = 2.5: variances 2 - 1 = 1, then 9 - 6.25 = 2.75.
  is(Kind::kCenteredRmsprop, 1 - 1 / (1.0 + 1) - 2 / (std::sqrt(2.75) + 1));
  // Squares 4, then 20.
  is(Kind::kAdagrad, 1 - 1 / (2.0 + 1) - 2 / (std::sqrt(20.0) + 1));
  // Means 1, then 2.5, over 1/2 and 3/4: 2 and 10/3. Squares 1, then 0.75 + 4 = 4.75, over 1/4 and 7/16: 4 and 76/7.
  is(Kind::kAdam, 1 - 0.5 * 2 / (2.0 + 1) - 0.5 * (10 / 3.0) / (std::sqrt(76 / 7.0) + 1));
}

TEST_CASE("optimizer: a constant gradient has zero variance, even if rounding makes it negative") {
  const OptimizerOptions options{Kind::kCenteredRmsprop, 0.01};
  std::vector<float> parameters(1000), moments(2000), gradient(1000);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.001f * static_cast<float>(i) + 0.37f;
  for (std::uint32_t step = 1; step <= 3000; ++step) {
    apply_gradient(options, step, parameters, moments.data(), 1000, gradient);
  }
  CHECK(all_finite(parameters));
}

TEST_CASE("optimizer: one value that is not finite is found at any position") {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t size : {1, 15, 16, 17, 70}) {
      std::vector<float> values(size, std::numeric_limits<float>::max());
      CHECK(all_finite(values));
      for (auto& value : values) {
        const float before = std::exchange(value, wrong);
        CHECK_FALSE(all_finite(values));
        value = before;
      }
    }
  }
  CHECK(all_finite({}));
}

TEST_CASE("optimizer: the state of every kind stays finite under the largest gradients") {
  constexpr float kLargest = 0x1.fffffep59f;
  for (const auto kind :
       {Kind::kMomentum, Kind::kRmsprop, Kind::kCenteredRmsprop, Kind::kAdagrad, Kind::kAdam, Kind::kSgd}) {
    const OptimizerOptions options{kind, 1e-3, 0.99, 1e-8, 0.9, 0.999};
    CAPTURE(options.name());
    std::vector<float> parameters(20), moments(40), gradient(20, kLargest);
    for (std::size_t i = 0; i < gradient.size(); i += 2) gradient[i] = -kLargest;
    CHECK(is_gradient(gradient));
    for (std::uint32_t step = 1; step <= 2000; ++step) {
      apply_gradient(options, step, parameters, moments.data(), 20, gradient);
    }
    CHECK(all_finite(parameters));
    CHECK(all_finite(moments));
    for (const float wrong : {0x1p60f, -0x1p60f, 3e38f, std::numeric_limits<float>::quiet_NaN()}) {
      gradient[19] = wrong;
      CHECK_FALSE(is_gradient(gradient));
    }
  }
}

TEST_CASE("optimizer: options as text") {
  const OptimizerOptions options{Kind::kCenteredRmsprop, 0.00025, 0.95, 0.01, 0.5, 0.75};
  const std::string text = options.encode();
  CHECK(text == "kind=centered-rmsprop;learning_rate=0.00025;decay=0.95;epsilon=0.01;beta1=0.5;beta2=0.75");
  CHECK(OptimizerOptions::decode(text) == options);
  for (std::size_t size = 0; size < text.size(); ++size) {
    if (size == text.size() - 1) continue;  // beta2=0.7
    try {
      const auto decoded = OptimizerOptions::decode(text.substr(0, size));
      CHECK_MESSAGE(decoded.beta2 != options.beta2, text.substr(0, size));
    } catch (const Error& error) {
      CHECK((error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInvalid));
    }
  }
  check_error(ErrorKind::kCorrupt, "beta2", [&] { OptimizerOptions::decode(text + ";x"); });
  check_error(ErrorKind::kInvalid, "kind is \"lion\"", [] { OptimizerOptions::decode("kind=lion"); });
  check_error(ErrorKind::kInvalid, "learning_rate is -1", [] { OptimizerOptions{.learning_rate = -1}.check(); });
  check_error(ErrorKind::kInvalid, "epsilon is 1e-40", [] { OptimizerOptions{.epsilon = 1e-40}.check(); });
  check_error(ErrorKind::kInvalid, "learning_rate is -1e-09", [] { OptimizerOptions{.learning_rate = -1e-9}.check(); });
}

TEST_CASE("optimizer: lengths that differ are refused") {
  Optimizer optimizer(OptimizerOptions{}, 3);
  std::vector<float> three(3), four(4);
  check_error(ErrorKind::kInvalid, "a gradient of 4 given, 3 of each required", [&] { optimizer.apply(three, four); });
  CHECK(optimizer.steps() == 0);
  optimizer.apply(three, three);
  CHECK(optimizer.steps() == 1);
}

}  // namespace
}  // namespace headrace
