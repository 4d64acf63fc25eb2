// Functions that outside loops ask to be called by, when something they wait for may have become possible.
//
// Threading: every method may be called from any thread. Functions are called with no lock held; once remove() has
// returned, the function is not running and never will be (so a function must not remove itself).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace headrace {

class Wakers {
 public:
  using Wake = std::function<void()>;

  std::uint64_t add(Wake wake);
  void remove(std::uint64_t id);
  void wake_all();

 private:
  struct Entry {
    Wake wake;
    int running = 0;  // calls under way
  };

  std::mutex mutex_;
  std::condition_variable finished_;
  std::map<std::uint64_t, std::shared_ptr<Entry>> entries_;
  std::uint64_t next_id_ = 1;
};

}  // namespace headrace
