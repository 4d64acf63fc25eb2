#include "core/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"

namespace headrace {
namespace {

constexpr double kChosenTolerance = 8;  // in the larger of batches and of chunks' worth: room for both to run ahead

void require_non_negative(const char* name, double value, const char* zero) {
  if (std::isfinite(value) && value >= 0) return;
  throw Error(ErrorKind::kInvalid, std::string(name) + " is " + std::to_string(value) +
                                       ", but it must be finite and >= 0 (0: " + zero + ")");
}

}  // namespace

RateLimiter::RateLimiter(LimiterOptions options) : options_(options) {
  require_non_negative("samples_per_insert", options.samples_per_insert, "off");
  require_non_negative("limiter_tolerance", options.tolerance, "chosen");
  options_.min_size = std::max<std::uint64_t>(1, options.min_size);
}

double RateLimiter::tolerance(std::uint64_t batch) const {
  if (options_.tolerance > 0) return options_.tolerance;
  return kChosenTolerance * std::max(static_cast<double>(std::max(batch, state_.largest_batch)),
                                     options_.samples_per_insert * static_cast<double>(state_.largest_chunk));
}

double RateLimiter::balance() const {
  return options_.samples_per_insert * static_cast<double>(state_.inserts) - static_cast<double>(state_.samples);
}

bool RateLimiter::can_insert() const {
  if (options_.samples_per_insert == 0 || state_.total < options_.min_size) return true;
  return balance() <= tolerance(0);
}

bool RateLimiter::can_sample(std::uint64_t batch, std::uint64_t size) const {
  if (options_.samples_per_insert > 0 && options_.tolerance > 0 && static_cast<double>(batch) > options_.tolerance) {
    throw Error(ErrorKind::kInvalid, "limiter_tolerance is " + std::to_string(options_.tolerance) +
                                         ", but it must be at least the batch size " + std::to_string(batch) +
                                         ", or sampling and inserting block each other forever");
  }
  if (size == 0 || state_.total < options_.min_size) return false;
  if (options_.samples_per_insert == 0) return true;
  return static_cast<double>(batch) - balance() <= tolerance(batch);
}

void RateLimiter::inserted(std::uint64_t steps) {
  if (state_.total >= options_.min_size) state_.inserts += steps;
  state_.total += steps;
  state_.largest_chunk = std::max(state_.largest_chunk, steps);
}

void RateLimiter::sampled(std::uint64_t batch) {
  state_.samples += batch;
  state_.largest_batch = std::max(state_.largest_batch, batch);
}

}  // namespace headrace
