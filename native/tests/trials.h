#pragma once

namespace headrace::testing {

// How many of `count` random trials to make: under a sanitizer, with which each takes some ten times as long, a
// quarter.
constexpr int trials(int count) {
#ifdef HEADRACE_SANITIZED
  return count / 4;
#else
  return count;
#endif
}

}  // namespace headrace::testing
