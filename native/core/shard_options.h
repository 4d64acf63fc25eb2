// Options of a shard: its size, its optimizer, and its policy for stale gradients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/optimizer.h"

namespace headrace {

enum class StalenessPolicy : std::uint8_t {
  kAccept,      // applied unchanged, however stale
  kDrop,        // beyond max_staleness (Nair et al. 2015, section 4.2)
  kScale,       // learning rate / max(1, staleness) (Zhang et al. 2016, "Staleness-aware async-SGD", equation 5)
  kCompensate,  // g + lambda g g (w_now - w_fetched) (Zheng et al. 2017, DC-ASGD, equation 10)
};

struct ShardOptions {
  static constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 31;

  std::uint64_t size = 0;  // parameters
  StalenessPolicy policy = StalenessPolicy::kAccept;
  std::uint64_t max_staleness = 0;  // kDrop's, in updates by others
  double compensation = 0;          // kCompensate's lambda, 0 or more
  OptimizerOptions optimizer = {};

  std::uint64_t state_bytes() const { return (1 + optimizer.moments()) * size * sizeof(float); }
  void check() const;  // throws kInvalid, naming the field
  // Text, two lines: "size=1000;policy=accept;...", then the optimizer's. decode() throws kCorrupt, and kInvalid where
  // check() does.
  std::string encode() const;
  static ShardOptions decode(std::string_view text);
  static StalenessPolicy policy_of(std::string_view name);  // "accept", "drop", "scale", "compensate"; kInvalid
  static std::string_view name_of(StalenessPolicy policy);
  bool operator==(const ShardOptions&) const = default;
};

}  // namespace headrace
