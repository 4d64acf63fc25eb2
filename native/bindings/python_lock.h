// Python's lock (the GIL): released and taken so that a thread may be in native code when the interpreter exits.
//
// When the interpreter exits, CPython (before 3.14) ends every thread that takes the lock, by an unwinding that no C++
// destructor or noexcept function survives: the process would abort. So once the exit function of this module (atexit)
// has run, no thread but the exiting one takes the lock: the others sleep until the process ends, as in CPython 3.14.
#pragma once

#include <Python.h>

#include <functional>

namespace headrace::bindings {

void watch_exit();  // registers the exit function; once, when the module is imported

// While it lives, other Python threads run. Its destructor does not return in a thread that must not take the lock, so
// native locks must be released before it.
class Released {
 public:
  Released() noexcept : state_(PyEval_SaveThread()) {}
  ~Released();
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* const state_;
};

// Runs `call` with the lock, in a thread that has released it. Throws in a thread that must not take the lock, which
// then unwinds to its Released and releases native locks on the way.
void with_lock(const std::function<void()>& call);

// Throws where a signal's handler raised (Ctrl-C), and as with_lock(). Called without the lock.
void check_signals();

}  // namespace headrace::bindings
