// Wakes a loop from any thread: an eventfd that is written at most once until the loop has looked.
//
// Threading: poke() and poked() from any thread, also after the loop is gone; the rest from the loop's thread.
#pragma once

#include <atomic>

#include "io/file_descriptor.h"

namespace headrace {

class Waker {
 public:
  Waker();  // throws kSystem

  int descriptor() const { return event_.get(); }
  void poke();
  bool poked() const { return poked_.load(); }  // since acknowledge()
  void acknowledge();                           // before looking at what poke() announced

 private:
  FileDescriptor event_;
  std::atomic<bool> poked_ = false;
};

}  // namespace headrace
