// Functions that outside loops ask to be called by, when something they wait for may have become possible.
//
// Threading: every method may be called from any thread. Functions are called with no lock held; once remove() has
// returned, the function is not running and never will be (so a function must not remove itself).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "core/mutex.h"

namespace headrace {

class Wakers {
 public:
  using Wake = std::function<void()>;

  std::uint64_t add(Wake wake) EXCLUDES(mutex_);
  void remove(std::uint64_t id) EXCLUDES(mutex_);
  void wake_all() EXCLUDES(mutex_);

 private:
  struct Entry {
    Wake wake;
    int running = 0;  // calls under way; guarded by mutex_, which a nested class cannot name
  };

  Mutex mutex_;
  ConditionVariable finished_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);
  std::uint64_t next_id_ GUARDED_BY(mutex_) = 1;
};

}  // namespace headrace
