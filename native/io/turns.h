// The queue of calls from several threads: one of them at a time has the turn.
//
// Threading: every method may be called from any thread.
#pragma once

#include <chrono>
#include <utility>

#include "core/mutex.h"
#include "io/interrupt.h"

namespace headrace {

class CAPABILITY("turn") Turns {
 public:
  void take(const Interrupt& interrupt) ACQUIRE() {
    const LockGuard lock(mutex_);
    while (busy_) {
      if (given_.wait_until(mutex_, std::chrono::steady_clock::now() + kInterruptSlice) || !interrupt) continue;
      const UnlockGuard unlocked(mutex_);
      interrupt();
    }
    busy_ = true;
  }
  bool try_take() TRY_ACQUIRE(true) {
    const LockGuard lock(mutex_);
    return !std::exchange(busy_, true);
  }
  void give() RELEASE() {
    {
      const LockGuard lock(mutex_);
      busy_ = false;
    }
    given_.notify_one();
  }

 private:
  Mutex mutex_;
  ConditionVariable given_;
  bool busy_ GUARDED_BY(mutex_) = false;
};

}  // namespace headrace
