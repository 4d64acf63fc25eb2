// How long a peer has been silent.
#pragma once

#include <algorithm>
#include <chrono>

namespace headrace {

// The time in which this process was itself stopped (Ctrl-Z, a paused container) is no silence of the peer, whose bytes
// it has not looked at. So a long time between two looks counts as kLongest.
//
// Threading: from one thread at a time.
class Silence {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kLongest{2};

  explicit Silence(Time now = {}) : looked_(now) {}

  // To be called about every kInterruptSlice while the peer is silent. Returns its silence so far.
  Time::duration look(Time now) {
    lasted_ += std::min<Time::duration>(now - looked_, kLongest);
    looked_ = now;
    return lasted_;
  }

 private:
  Time looked_;
  Time::duration lasted_{};
};

}  // namespace headrace
