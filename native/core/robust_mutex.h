// A mutex between processes that survives its holder: if a process is killed while it holds the mutex, another process
// can lock it.
//
// Threading: placed in memory that processes share; initialize() comes before any other process sees it. It is never
// destroyed, only its memory is released.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <string>

#include "core/error.h"
#include "core/thread_safety.h"

namespace headrace {

class CAPABILITY("mutex") RobustMutex {
 public:
  void initialize() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    const int error = pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (error != 0) fail(error);
  }

  // Returns the nanoseconds waited: 0 if it was free. The caller must tolerate data that a killed holder left
  // incomplete.
  std::uint64_t lock() ACQUIRE() {
    if (const int error = pthread_mutex_trylock(&mutex_); error != EBUSY) {
      take(error);
      return 0;
    }
    const auto start = std::chrono::steady_clock::now();
    take(pthread_mutex_lock(&mutex_));
    const auto waited = std::chrono::steady_clock::now() - start;
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(waited).count());
  }

  // As lock(); false if another process held it for that time, by the system's clock.
  bool try_lock_for(std::chrono::seconds patience) TRY_ACQUIRE(true) {
    timespec until = {};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += patience.count();
    const int error = pthread_mutex_timedlock(&mutex_, &until);
    if (error == ETIMEDOUT) return false;
    take(error);
    return true;
  }

  void unlock() RELEASE() { pthread_mutex_unlock(&mutex_); }

 private:
  void take(int error) {
    if (error == EOWNERDEAD) error = pthread_mutex_consistent(&mutex_);
    if (error != 0) fail(error);
  }

  [[noreturn]] static void fail(int error) {
    throw Error(ErrorKind::kSystem, std::string("a lock between processes: ") + std::strerror(error));
  }

  pthread_mutex_t mutex_;
};

}  // namespace headrace
