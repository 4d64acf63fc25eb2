#include "bindings/python_lock.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

namespace headrace::bindings {
namespace {

namespace nb = nanobind;

constexpr auto kPause = std::chrono::milliseconds(1);

struct Exiting : std::exception {};

std::atomic<int> taking = 0;  // threads that have been allowed to take the lock, and do not have it yet
std::atomic<bool> exiting = false;
thread_local bool is_exiting_thread = false;

// Whether this thread may take the lock. It calls has_taken() when it has it.
bool may_take() {
  taking.fetch_add(1);  // before it looks, so that the exit waits for it
  if (!exiting.load() || is_exiting_thread) return true;
  taking.fetch_sub(1);
  return false;
}

void has_taken() { taking.fetch_sub(1); }

void on_exit() {
  is_exiting_thread = true;
  exiting.store(true);
  if (taking.load() == 0) return;
  PyThreadState* const state = PyEval_SaveThread();
  while (taking.load() > 0) std::this_thread::sleep_for(kPause);
  PyEval_RestoreThread(state);
}

}  // namespace

void watch_exit() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&on_exit));
  ::pthread_atfork(nullptr, nullptr, [] { taking.store(0); });  // the threads that were counted are not in the child
}

Released::~Released() {
  while (!may_take()) ::pause();
  PyEval_RestoreThread(state_);
  has_taken();
}

void with_lock(const std::function<void()>& call) {
  if (!may_take()) throw Exiting();
  const nb::gil_scoped_acquire lock;
  has_taken();
  call();
}

void check_signals() {
  with_lock([] {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  });
}

}  // namespace headrace::bindings
