// Threads of our own take no signals: they belong to the program that we are part of.
#pragma once

#include <pthread.h>

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

}  // namespace headrace
