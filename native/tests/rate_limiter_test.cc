#include "core/rate_limiter.h"

#include <limits>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

TEST_CASE("rate limiter: off, only min_size holds") {
  RateLimiter limiter({.min_size = 100});
  CHECK(limiter.can_insert());
  CHECK_FALSE(limiter.can_sample(32, 0));
  limiter.inserted(99);
  CHECK_FALSE(limiter.can_sample(32, 99));
  limiter.inserted(1);
  CHECK(limiter.can_sample(1'000'000, 100));
  CHECK(limiter.can_insert());
  CHECK_FALSE(limiter.can_sample(32, 0));  // everything was evicted
}

TEST_CASE("rate limiter: both sides, with numbers worked by hand") {
  // 2 samples per insert, tolerance 20. Warm-up of 10 does not count.
  RateLimiter limiter({.samples_per_insert = 2, .tolerance = 20, .min_size = 10});
  limiter.inserted(10);
  CHECK(limiter.state().inserts == 0);
  CHECK(limiter.can_sample(10, 10));
  limiter.sampled(10);
  CHECK(limiter.can_sample(10, 10));  // 10 + 10 - 0 <= 20
  limiter.sampled(10);
  CHECK_FALSE(limiter.can_sample(1, 10));  // 20 + 1 > 20
  CHECK(limiter.can_insert());
  limiter.inserted(5);  // allows 10 more
  CHECK(limiter.can_sample(10, 15));
  CHECK_FALSE(limiter.can_sample(11, 15));
  limiter.inserted(15);  // 2 * 20 - 20 = 20 ahead: still allowed
  CHECK(limiter.can_insert());
  limiter.inserted(1);  // 22 ahead
  CHECK_FALSE(limiter.can_insert());
  limiter.sampled(1);  // 21
  CHECK_FALSE(limiter.can_insert());
  limiter.sampled(1);
  CHECK(limiter.can_insert());
}

TEST_CASE("rate limiter: a chosen tolerance is 8 times the larger of a batch and a chunk's worth") {
  RateLimiter limiter({.samples_per_insert = 4, .min_size = 1});
  limiter.inserted(50);  // worth 200: tolerance 1600
  CHECK(limiter.can_sample(100, 50));
  limiter.sampled(1600);  // the largest batch is 1600 now: tolerance 12800
  CHECK(limiter.can_sample(11'200, 50));
  CHECK_FALSE(RateLimiter(LimiterOptions{.samples_per_insert = 4, .min_size = 1}).can_sample(10, 0));
}

TEST_CASE("rate limiter: a chosen tolerance remembers the largest batch and the largest chunk") {
  RateLimiter batches({.samples_per_insert = 1, .min_size = 1});
  batches.inserted(1);  // warm-up
  batches.sampled(64);  // tolerance 512
  for (int i = 0; i < 64 + 512; ++i) batches.inserted(1);
  CHECK(batches.can_insert());
  batches.inserted(1);
  CHECK_FALSE(batches.can_insert());

  RateLimiter chunks({.samples_per_insert = 4, .min_size = 1});
  for (int i = 0; i < 9; ++i) chunks.inserted(50);  // the first is the warm-up; 8 are worth the tolerance of 1600
  CHECK(chunks.can_insert());
  chunks.inserted(50);
  CHECK_FALSE(chunks.can_insert());
}

// In any order, one side may always go on, and the balance keeps within the tolerance and one step of either.
TEST_CASE("rate limiter: greedy sides never both block") {
  for (const double ratio : {0.1, 1.0, 7.5}) {
    RateLimiter limiter({.samples_per_insert = ratio, .tolerance = 64, .min_size = 50});
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
      const bool insert_first = random() % 2 == 0;
      const bool insert = limiter.can_insert();
      const bool sample = limiter.can_sample(64, 50);
      REQUIRE((insert || sample));
      if (insert && (insert_first || !sample)) {
        limiter.inserted(50);
      } else {
        limiter.sampled(64);
      }
      const auto& state = limiter.state();
      const double ahead = ratio * static_cast<double>(state.inserts) - static_cast<double>(state.samples);
      REQUIRE(ahead <= 64 + ratio * 50);
      REQUIRE(ahead >= -64);
    }
  }
}

TEST_CASE("rate limiter: settings that can never work") {
  check_error(ErrorKind::kInvalid, "samples_per_insert", [] { RateLimiter({.samples_per_insert = -1}); });
  check_error(ErrorKind::kInvalid, "limiter_tolerance",
              [] { RateLimiter({.tolerance = std::numeric_limits<double>::infinity()}); });
  const RateLimiter limiter({.samples_per_insert = 1, .tolerance = 10});
  check_error(ErrorKind::kInvalid, "limiter_tolerance", [&] { limiter.can_sample(11, 100); });
}

TEST_CASE("rate limiter: restored, it answers as the one that was saved") {
  RateLimiter limiter({.samples_per_insert = 2, .tolerance = 20, .min_size = 10});
  limiter.inserted(10);
  limiter.sampled(20);
  RateLimiter other({.samples_per_insert = 2, .tolerance = 20, .min_size = 10});
  CHECK_FALSE(other.can_sample(1, 10));  // not begun
  other.restore(limiter.state());
  CHECK_FALSE(other.can_sample(1, 10));  // ahead by 20
  other.inserted(1);
  CHECK(other.can_sample(2, 10));
}

}  // namespace
}  // namespace headrace
