// Holds the ratio of samples to inserts to a target by blocking whichever side is ahead.
//
// With s samples (transitions sampled, not batches) and i inserts (transitions) since sampling began to be allowed:
// an insert may go ahead while  samples_per_insert * i - s <= tolerance, a sample of B while
// s + B - samples_per_insert * i <= tolerance; and no sample before `min_size` transitions were inserted.
// (Reverb's SampleToInsertRatio, Cassirer et al. 2021, counted in transitions.)
//
// Threading: not thread-safe. The owner (Table) guards it.
#pragma once

#include <cstdint>

namespace headrace {

struct LimiterOptions {
  double samples_per_insert = 0;  // 0: off; only min_size applies
  // In samples; at least a batch, or both sides would block. 0: 8 times the larger of a batch and of what one chunk
  // allows, from the largest seen.
  double tolerance = 0;
  std::uint64_t min_size = 1;  // transitions inserted before the first sample
};

class RateLimiter {
 public:
  explicit RateLimiter(LimiterOptions options);  // throws kInvalid

  bool can_insert() const;
  // Whether `batch` samples may be drawn from `size` stored transitions. kInvalid for a batch above a tolerance that
  // was set: it could never be drawn.
  bool can_sample(std::uint64_t batch, std::uint64_t size) const;
  void inserted(std::uint64_t steps);
  void sampled(std::uint64_t batch);

  // The complete state, for checkpoints.
  struct State {
    std::uint64_t total = 0;    // transitions inserted, ever
    std::uint64_t inserts = 0;  // of these since min_size was reached
    std::uint64_t samples = 0;
    std::uint64_t largest_chunk = 0;
    std::uint64_t largest_batch = 0;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  double tolerance(std::uint64_t batch) const;
  double balance() const;  // samples that inserts have allowed and that were not drawn yet

  LimiterOptions options_;
  State state_;
};

}  // namespace headrace
