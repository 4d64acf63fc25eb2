// A thread that saves a server's shards at intervals.
//
// Threading: stop() and warnings() from any thread; the rest from the owner's.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/mutex.h"
#include "core/shards.h"

namespace headrace {

class ShardSaver {
 public:
  // Starts the thread; `shards` outlive it. A pass begins so early that it ends within `period` of the last one's
  // beginning, as long as it takes less than a third of that time.
  ShardSaver(Shards& shards, std::chrono::milliseconds period);
  ~ShardSaver() { stop(); }
  ShardSaver(const ShardSaver&) = delete;
  ShardSaver& operator=(const ShardSaver&) = delete;

  void stop();  // after a last pass

  // A line for each shard that could not be saved, the first time in a row.
  std::vector<std::string> warnings() const;

 private:
  void run();
  void save();

  Shards& shards_;
  const std::chrono::steady_clock::duration period_;
  std::map<std::string, std::string> failing_;  // of the last pass; the thread's alone
  Mutex stop_mutex_ ACQUIRED_BEFORE(mutex_);    // one stop() at a time: a second one waits for the first
  mutable Mutex mutex_;
  ConditionVariable stopping_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::vector<std::string> warnings_ GUARDED_BY(mutex_);
  std::thread thread_ GUARDED_BY(stop_mutex_);  // last: it uses all of the above
};

}  // namespace headrace
