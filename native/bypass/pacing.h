// How a polling thread uses its core while there is nothing to do: a server's, and a client's that waits for a reply.
//
// Threading: one thread at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/table.h"

namespace headrace::bypass {

enum class Polling : std::uint8_t {
  kAlways,    // never pauses: the core belongs to this thread
  kAdaptive,  // lets other threads of its core run, and naps once it has had nothing to do for a second
};

class Pacing {
 public:
  enum class Pause : std::uint8_t { kNone, kYield, kNap };

  static constexpr auto kNap = std::chrono::milliseconds(1);  // by which the first request after a pause is late
  static constexpr auto kAwake = std::chrono::seconds(1);
  static constexpr unsigned kTurnsPerYield = 32;

  Pacing(Polling polling, Deadline now) : polling_(polling), last_busy_(now) {}

  Pause after_turn(bool busy, Deadline now) {
    if (busy) {
      last_busy_ = now;
      idle_turns_ = 0;
    }
    if (busy || polling_ == Polling::kAlways) return Pause::kNone;
    if (now - last_busy_ >= kAwake) return Pause::kNap;
    return ++idle_turns_ % kTurnsPerYield == 0 ? Pause::kYield : Pause::kNone;
  }

 private:
  const Polling polling_;
  Deadline last_busy_;
  unsigned idle_turns_ = 0;
};

// How long a client sleeps between two looks, having waited for a reply so long. 0: it lets another thread run, and
// looks again. A reply is late by an eighth of its time at most, and who waits for long hardly uses a core.
constexpr std::chrono::nanoseconds nap_after(std::chrono::nanoseconds waited) {
  constexpr std::chrono::nanoseconds kAwake = std::chrono::microseconds(200);
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(1);
  return waited < kAwake ? std::chrono::nanoseconds(0) : std::min(waited / 8, kLongest);
}

}  // namespace headrace::bypass
