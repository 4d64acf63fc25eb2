#include "core/quiet_thread.h"

#include <doctest/doctest.h>

#include <stdexcept>

using namespace headrace;

namespace {

bool blocks(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 1;
}

// A body that no thread can be started with.
struct Immovable {
  Immovable() = default;
  Immovable(Immovable&&) { throw std::runtime_error("it stays"); }
  void operator()() const {}
};

}  // namespace

TEST_CASE("a native thread receives only the signals that its faults raise, and its maker the same as before") {
  bool user = false, fault = true;
  start_quiet_thread([&] {
    user = blocks(SIGINT);
    fault = blocks(SIGSEGV);
  }).join();
  CHECK(user);
  CHECK_FALSE(fault);
  CHECK_FALSE(blocks(SIGINT));
}

TEST_CASE("a thread that cannot be started leaves its maker the signals it had") {
  CHECK_THROWS_AS(start_quiet_thread(Immovable()), std::runtime_error);
  CHECK_FALSE(blocks(SIGINT));
}
