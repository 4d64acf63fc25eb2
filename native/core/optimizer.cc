#include "core/optimizer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/tiny_as_zero.h"

// Compiled once for each register width; the loader selects one. Not with sanitizers, which are not yet initialized at
// that point. This file is compiled with -ffp-contract=off, so that all clones round alike (see CMakeLists.txt).
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(HEADRACE_SANITIZED)
#define HEADRACE_WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HEADRACE_WIDE
#endif

namespace headrace {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"sgd",     "momentum", "rmsprop", "centered-rmsprop",
                                                    "adagrad", "adam"};

std::string text_of(double value) {  // the shortest that reads back as the same number
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

void require(bool holds, const char* name, double value, const char* required) {
  if (holds) return;
  throw Error(ErrorKind::kInvalid, std::string("optimizer: ") + name + " is " + text_of(value) + ", but it must be " +
                                       required + "; nothing can be learned with it");
}

[[noreturn]] void corrupt(std::string_view name, std::string_view text, const char* required) {
  throw Error(ErrorKind::kCorrupt, "optimizer options: " + std::string(name) + " is \"" +
                                       std::string(text.substr(0, 200)) + "\", but it must be " + required +
                                       "; no optimizer is made of them");
}

}  // namespace

// The loops. Products are grouped as torch groups them: addcmul is (value * a) * b, addcdiv is (value * a) / b.
namespace loops {

using Vector = float* __restrict;
using Values = const float* __restrict;

HEADRACE_WIDE void sgd(std::size_t size, Vector p, Values g, float rate) {
  for (std::size_t i = 0; i < size; ++i) p[i] -= rate * g[i];
}

HEADRACE_WIDE void momentum(std::size_t size, Vector p, Vector m, Values g, float rate, float kept) {
  for (std::size_t i = 0; i < size; ++i) {
    m[i] = kept * m[i] + g[i];
    p[i] -= rate * m[i];
  }
}

HEADRACE_WIDE void rmsprop(std::size_t size, Vector p, Vector v, Values g, float rate, float kept, float fresh,
                           float epsilon) {
  for (std::size_t i = 0; i < size; ++i) {
    v[i] = kept * v[i] + fresh * g[i] * g[i];
    p[i] -= rate * g[i] / (std::sqrt(v[i]) + epsilon);
  }
}

// The variance can't be below 0, though what rounding leaves of it can.
HEADRACE_WIDE void centered_rmsprop(std::size_t size, Vector p, Vector v, Vector m, Values g, float rate, float kept,
                                    float fresh, float epsilon) {
  for (std::size_t i = 0; i < size; ++i) {
    v[i] = kept * v[i] + fresh * g[i] * g[i];
    m[i] = m[i] + fresh * (g[i] - m[i]);
    const float variance = v[i] - m[i] * m[i];
    p[i] -= rate * g[i] / (std::sqrt(variance > 0 ? variance : 0) + epsilon);
  }
}

HEADRACE_WIDE void adagrad(std::size_t size, Vector p, Vector v, Values g, float rate, float epsilon) {
  for (std::size_t i = 0; i < size; ++i) {
    v[i] = std::min(v[i] + g[i] * g[i], std::numeric_limits<float>::max());
    p[i] -= rate * g[i] / (std::sqrt(v[i]) + epsilon);
  }
}

HEADRACE_WIDE void adam(std::size_t size, Vector p, Vector m, Vector v, Values g, float rate, float fresh1, float kept2,
                        float fresh2, float scale, float epsilon) {
  for (std::size_t i = 0; i < size; ++i) {
    m[i] = m[i] + fresh1 * (g[i] - m[i]);
    v[i] = kept2 * v[i] + fresh2 * g[i] * g[i];
    p[i] -= rate * m[i] / (std::sqrt(v[i]) / scale + epsilon);
  }
}

// All magnitudes below a power of two or infinity, and none NaN: as integers, their bits are in the same order.
HEADRACE_WIDE bool below(std::size_t size, Values values, std::uint32_t limit) {
  constexpr std::uint32_t kMagnitude = 0x7fffffff;
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < size; ++i) {
    found |= (std::bit_cast<std::uint32_t>(values[i]) & kMagnitude) >= limit ? 1u : 0u;
  }
  return found == 0;
}

}  // namespace loops

void OptimizerOptions::check() const {
  const auto fraction = [](double value) { return value >= 0 && value < 1; };
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  require(positive(learning_rate), "learning_rate", learning_rate, "above 0");
  require(fraction(decay), "decay", decay, "in [0, 1)");
  const bool normal = positive(epsilon) && static_cast<float>(epsilon) >= std::numeric_limits<float>::min();
  require(normal, "epsilon", epsilon, "at least 1.2e-38, the smallest normal number");
  require(fraction(beta1), "beta1", beta1, "in [0, 1)");
  require(fraction(beta2), "beta2", beta2, "in [0, 1)");
}

std::size_t OptimizerOptions::moments() const {
  constexpr std::array<std::size_t, 6> kMoments = {0, 1, 1, 2, 1, 2};
  return kMoments[static_cast<std::size_t>(kind)];
}

OptimizerOptions::Kind OptimizerOptions::kind_of(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name);
  if (found != kNames.end()) return static_cast<Kind>(found - kNames.begin());
  throw Error(ErrorKind::kInvalid, "optimizer: kind is \"" + std::string(name.substr(0, 200)) +
                                       "\", but it must be sgd, momentum, rmsprop, centered-rmsprop, adagrad or adam");
}

std::string_view OptimizerOptions::name() const { return kNames[static_cast<std::size_t>(kind)]; }

std::string OptimizerOptions::encode() const {
  return "kind=" + std::string(name()) + ";learning_rate=" + text_of(learning_rate) + ";decay=" + text_of(decay) +
         ";epsilon=" + text_of(epsilon) + ";beta1=" + text_of(beta1) + ";beta2=" + text_of(beta2);
}

OptimizerOptions OptimizerOptions::decode(std::string_view text) {
  const auto take = [&](std::string_view name) {
    if (!text.starts_with(name) || text.substr(name.size(), 1) != "=") corrupt(name, text, "next");
    text.remove_prefix(name.size() + 1);
    const std::size_t end = text.find(';');
    const std::string_view value = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return value;
  };
  const auto number = [&](std::string_view name) {
    const std::string_view value = take(name);
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size()) corrupt(name, value, "a number");
    return result;
  };
  OptimizerOptions options;
  options.kind = kind_of(take("kind"));
  options.learning_rate = number("learning_rate");
  options.decay = number("decay");
  options.epsilon = number("epsilon");
  options.beta1 = number("beta1");
  options.beta2 = number("beta2");
  if (!text.empty()) corrupt("beta2", text, "the end");
  options.check();
  return options;
}

void apply_gradient(const OptimizerOptions& options, std::uint64_t step, std::span<float> parameters, float* moments,
                    std::size_t moment_stride, std::span<const float> gradient) noexcept {
  using Kind = OptimizerOptions::Kind;
  const TinyAsZero tiny_as_zero;
  const std::size_t size = std::min(parameters.size(), gradient.size());
  float* const p = parameters.data();
  const float* const g = gradient.data();
  const auto rate = static_cast<float>(options.learning_rate);
  const auto kept = static_cast<float>(options.decay), fresh = static_cast<float>(1 - options.decay);
  const auto epsilon = static_cast<float>(options.epsilon);
  switch (options.kind) {
    case Kind::kSgd:
      return loops::sgd(size, p, g, rate);
    case Kind::kMomentum:
      return loops::momentum(size, p, moments, g, rate, kept);
    case Kind::kRmsprop:
      return loops::rmsprop(size, p, moments, g, rate, kept, fresh, epsilon);
    case Kind::kCenteredRmsprop:
      return loops::centered_rmsprop(size, p, moments, moments + moment_stride, g, rate, kept, fresh, epsilon);
    case Kind::kAdagrad:
      return loops::adagrad(size, p, moments, g, rate, epsilon);
    case Kind::kAdam: {
      const auto n = static_cast<double>(step);
      const double correction1 = 1 - std::pow(options.beta1, n), correction2 = 1 - std::pow(options.beta2, n);
      return loops::adam(size, p, moments, moments + moment_stride, g,
                         static_cast<float>(options.learning_rate / correction1), static_cast<float>(1 - options.beta1),
                         static_cast<float>(options.beta2), static_cast<float>(1 - options.beta2),
                         static_cast<float>(std::sqrt(correction2)), epsilon);
    }
  }
}

Optimizer::Optimizer(const OptimizerOptions& options, std::size_t count)
    : options_((options.check(), options)), count_(count), moments_(options.moments() * count) {}

void Optimizer::apply(std::span<float> parameters, std::span<const float> gradient) {
  if (parameters.size() != count_ || gradient.size() != count_) {
    throw Error(ErrorKind::kInvalid, "optimizer: " + std::to_string(parameters.size()) +
                                         " parameters and a gradient of " + std::to_string(gradient.size()) +
                                         " given, " + std::to_string(count_) + " of each required");
  }
  apply_gradient(options_, ++steps_, parameters, moments_.data(), count_, gradient);
}

bool all_finite(std::span<const float> values) noexcept {
  constexpr auto kInfinity = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  return loops::below(values.size(), values.data(), kInfinity);
}

bool is_gradient(std::span<const float> values) noexcept {
  return loops::below(values.size(), values.data(), std::bit_cast<std::uint32_t>(kGradientLimit));
}

}  // namespace headrace
