// Native threads receive no signals: these are for the program's own threads.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <thread>
#include <utility>

namespace headrace {

template <typename Body>
std::thread start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// For a thread that works ahead of another: it runs where there is room, and never takes a core away from a thread that
// has just woken it (a learner that gives a batch back would lose its own core to the one that fetches the next).
inline void run_in_background() {
  const sched_param none = {};
  ::pthread_setschedparam(::pthread_self(), SCHED_BATCH, &none);  // always allowed; a hint, so that failure is none
}

}  // namespace headrace
