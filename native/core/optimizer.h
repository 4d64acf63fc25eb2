// Optimizers over flat float parameters: torch's arithmetic, one pass over the memory, no allocation.
//
// Threading: pure functions of their arguments; two calls may run at once if their memory does not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/huge_array.h"

namespace headrace {

struct OptimizerOptions {
  enum class Kind : std::uint8_t { kSgd, kMomentum, kRmsprop, kCenteredRmsprop, kAdagrad, kAdam };

  Kind kind = Kind::kAdam;
  double learning_rate = 1e-3;
  double decay = 0.99;  // of RMSprop's averages; of what momentum keeps
  double epsilon = 1e-8;
  double beta1 = 0.9, beta2 = 0.999;  // Adam's

  void check() const;             // throws kInvalid, naming the field
  std::string_view name() const;  // of the kind: "sgd", "momentum", "rmsprop", "centered-rmsprop", "adagrad", "adam"
  std::size_t moments() const;    // vectors of optimizer state: 0, 1 or 2
  std::string encode() const;     // "kind=adam;learning_rate=0.001;...", for the wire and for checkpoints
  static OptimizerOptions decode(std::string_view text);  // throws kCorrupt, or kInvalid where check() does
  static Kind kind_of(std::string_view name);             // throws kInvalid
  bool operator==(const OptimizerOptions&) const = default;
};

// Applies update number `step` (from 1). `moments` holds options.moments() vectors as long as the parameters, zero
// before the first step, the i-th at moments + i * moment_stride. `options` are checked ones. Elementwise: the result
// is bit for bit the same however the vectors are split, and for every register width. On x86 numbers below 1e-38 count
// as 0. Never throws.
void apply_gradient(const OptimizerOptions& options, std::uint64_t step, std::span<float> parameters, float* moments,
                    std::size_t moment_stride, std::span<const float> gradient) noexcept;

// The optimizer state and step count of one vector of parameters. One thread at a time.
class Optimizer {
 public:
  Optimizer(const OptimizerOptions& options, std::size_t count);  // throws kInvalid, kSystem

  void apply(std::span<float> parameters, std::span<const float> gradient);  // both of `count`; throws kInvalid

  std::size_t count() const { return count_; }
  std::uint64_t steps() const { return steps_; }
  void set_steps(std::uint64_t steps) { steps_ = steps; }
  std::size_t moments() const { return options_.moments(); }  // M
  float* data() { return moments_.data(); }                   // [M, P]

 private:
  const OptimizerOptions options_;
  const std::size_t count_;
  std::uint64_t steps_ = 0;
  HugeArray<float> moments_;
};

bool all_finite(std::span<const float> values) noexcept;  // no NaN, no infinity; one pass

// A gradient that can be applied: no NaN, and all magnitudes below this, so that the averages of squares that
// optimizers keep stay finite. One pass.
constexpr float kGradientLimit = 0x1p60f;
bool is_gradient(std::span<const float> values) noexcept;

}  // namespace headrace
