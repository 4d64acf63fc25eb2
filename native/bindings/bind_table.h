// Options of a table as keyword arguments: those of Table() are those of Server.add_table() and open_table().
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/server.h"
#include "core/table.h"

namespace headrace::bindings {

inline TableOptions table_options(const Signature& signature, std::uint64_t capacity, std::uint64_t capacity_bytes,
                                  const std::string& sampler, double priority_exponent, double samples_per_insert,
                                  double limiter_tolerance, std::uint64_t min_size, std::uint64_t seed,
                                  std::string path = {}) {
  if (sampler != "prioritized" && sampler != "uniform") {
    throw Error(ErrorKind::kInvalid, "sampler: '" + sampler + "' given, 'prioritized' or 'uniform' required");
  }
  TableOptions options;
  options.signature = signature;
  options.capacity = capacity;
  options.capacity_bytes = capacity_bytes;
  options.sampler = sampler == "uniform" ? Sampler::kUniform : Sampler::kPrioritized;
  options.priority_exponent = priority_exponent;
  options.limiter = {samples_per_insert, limiter_tolerance, min_size};
  options.seed = seed;
  options.path = std::move(path);
  return options;
}

inline TableState table_state(const std::string& state) {
  if (state == "open") return TableState::kOpen;
  if (state == "paused") return TableState::kPaused;
  if (state == "closed") return TableState::kClosed;
  throw Error(ErrorKind::kInvalid, "state: '" + state + "' given, 'open', 'paused' or 'closed' required");
}

// Calls `define(function-arguments...)` with the annotations for table_options(), in its order, without `path`.
auto with_table_arguments(auto define) {
  using namespace nanobind::literals;
  return define("signature"_a, nanobind::kw_only(), "capacity"_a = 1'000'000, "capacity_bytes"_a = 0,
                "sampler"_a = "prioritized", "priority_exponent"_a = 0.6, "samples_per_insert"_a = 0.0,
                "limiter_tolerance"_a = 0.0, "min_size"_a = 1, "seed"_a = 0);
}

}  // namespace headrace::bindings
