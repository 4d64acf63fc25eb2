// Native threads receive no signals, which are for the program's own threads, but those that their own faults raise: if
// these were blocked, a fault would kill the process without calling its handler.
#pragma once

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

namespace headrace {

// Blocks the signals of the thread that makes it, until its end; threads started meanwhile keep them blocked.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

template <typename Body>
std::thread start_quiet_thread(Body body) {
  const BlockedSignals blocked;
  return std::thread(std::move(body));
}

// For a thread that works ahead of another: it runs where there is room, and never takes a core away from a thread that
// has just woken it (a learner that gives a batch back would lose its own core to the one that fetches the next).
inline void run_in_background() {
  const sched_param none = {};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);  // always allowed; a hint, so that failure is none
}

// For a thread that others wait for: it is scheduled as the program's main thread is, whichever thread has started it.
// A thread inherits the policy of the one that starts it, and one that works in the background takes no core from
// others.
inline void run_in_foreground() {
  sched_param parameters = {};
  const int policy = ::sched_getscheduler(::getpid());
  if (::sched_getparam(::getpid(), &parameters) == 0) ::pthread_setschedparam(::pthread_self(), policy, &parameters);
}

}  // namespace headrace
