// The queue of calls from several threads: one of them at a time has the turn, in the order in which they asked for it.
//
// Threading: every method may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>

#include "core/mutex.h"
#include "io/interrupt.h"

namespace headrace {

class CAPABILITY("turn") Turns {
 public:
  explicit Turns(Interrupt interrupt) : interrupt_(std::move(interrupt)) {}

  // Throws what the interrupt throws during the wait.
  void take() ACQUIRE() {
    const LockGuard lock(mutex_);
    if (busy_ || !queue_.empty()) wait();
    busy_ = true;
  }
  bool try_take() TRY_ACQUIRE(true) {
    const LockGuard lock(mutex_);
    return queue_.empty() && !std::exchange(busy_, true);
  }
  void give() RELEASE() {
    {
      const LockGuard lock(mutex_);
      busy_ = false;
    }
    changed_.notify_all();
  }
  // Some call has had to wait for its turn.
  bool contended() {
    const LockGuard lock(mutex_);
    return next_ticket_ > 0;
  }

 private:
  void wait() REQUIRES(mutex_) {
    const std::uint64_t ticket = next_ticket_++;
    queue_.push_back(ticket);
    try {
      while (busy_ || queue_.front() != ticket) {
        if (changed_.wait_until(mutex_, std::chrono::steady_clock::now() + kInterruptSlice) || !interrupt_) continue;
        const UnlockGuard unlocked(mutex_);
        interrupt_();
      }
    } catch (...) {
      std::erase(queue_, ticket);
      changed_.notify_all();
      throw;
    }
    queue_.pop_front();
  }

  const Interrupt interrupt_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool busy_ GUARDED_BY(mutex_) = false;
  std::deque<std::uint64_t> queue_ GUARDED_BY(mutex_);  // the tickets of those who wait
  std::uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
};

// One call's turn; the next in the queue has it when this is gone.
class SCOPED_CAPABILITY Turn {
 public:
  explicit Turn(Turns& turns) ACQUIRE(turns) : turns_(turns) { turns_.take(); }
  ~Turn() RELEASE() { turns_.give(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace headrace
