// Functions of I/O loops, to be called when something that they wait for may have become possible.
//
// Threading: every method may be called from any thread. Functions are called with no lock held; after remove() has
// returned, the function is not running and will not be called again (so a function must not remove itself).
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
