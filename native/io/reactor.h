// One thread that serves connections with epoll; a Loop has several. It moves bytes; which session goes on when is up
// to its Scheduler.
//
// Threading: start(), stop(), add() and watch_listener() from any thread; adopt() from the reactor's own, in the
// accept hook. The hooks run on the reactor's thread. `mutex_` guards the thread's beginning, the inbox, whether it is
// shut, and the listeners; members below them in the class are used by the thread alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/mutex.h"
#include "io/file_descriptor.h"
#include "io/scheduler.h"
#include "io/served_connection.h"
#include "io/waker.h"

namespace headrace {

class Reactor {
 public:
  using Id = ServedConnection::Id;  // odd: a listener; even: a connection

  struct Hooks {
    // Which reactor serves it from now on, given the one that does.
    std::function<Reactor&(const Session&, Reactor&)> reactor_of;
    // A listener has connections that wait. False: the process has no descriptors left; ask again after a pause. Empty:
    // this reactor has no listeners.
    std::function<bool(Id)> accept = {};
    bool background = false;  // its work is not urgent, and it never takes the core of the thread that woke it
  };

  // `connections` counts the open connections of all reactors; this one subtracts those it closes.
  Reactor(std::atomic<std::uint64_t>& connections, std::size_t max_unproven, Hooks hooks);  // throws kSystem
  ~Reactor() { stop(); }

  void start();                                // unless it has: add() starts it too
  void stop();                                 // answers what can be answered at once, and closes every connection
  void watch_listener(Id id, int descriptor);  // throws kSystem
  // Closes it if there is no memory or no thread for it, and after stop().
  void add(std::unique_ptr<ServedConnection> connection) noexcept;
  void adopt(std::unique_ptr<ServedConnection> connection);
  std::size_t connections() const { return own_count_.load(); }  // that it has, or is about to have

 private:
  struct Served {
    std::unique_ptr<ServedConnection> connection;
    std::uint32_t events = 0;  // watched for
  };

  void begin() REQUIRES(mutex_);
  void run();
  void turn();
  void watch(int operation, int descriptor, std::uint32_t events, Id id);
  void watch_again(Id id, std::uint32_t events) REQUIRES(mutex_);
  void on_listener(Id id);
  void resume_listeners();
  void take_inbox();
  void drop(Id id);
  std::unique_ptr<ServedConnection> release(Id id);
  void end(const ServedConnection& connection);
  void settle(Served& served);
  template <typename Action>
  void serve(Id id, Action action);
  void shut();

  std::atomic<std::uint64_t>& connection_count_;
  std::atomic<std::size_t> own_count_ = 0;
  const Hooks hooks_;
  const FileDescriptor epoll_;
  const std::shared_ptr<Waker> waker_;
  std::atomic<bool> stop_ = false;

  Mutex stop_mutex_ ACQUIRED_BEFORE(mutex_);  // one stop() at a time: a second one waits for the first
  Mutex mutex_;
  std::thread thread_ GUARDED_BY(mutex_);
  bool begun_ GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<ServedConnection>> inbox_ GUARDED_BY(mutex_);
  bool shut_ GUARDED_BY(mutex_) = false;                      // nothing is taken any more
  std::unordered_map<Id, int> listeners_ GUARDED_BY(mutex_);  // their descriptors

  std::vector<Id> paused_listeners_;  // asked again at accept_again_
  Deadline accept_again_ = never();
  std::unordered_map<Id, Served> served_;
  Scheduler scheduler_;
  Deadline asleep_at_ = {};  // until then it looks for the next request without going to sleep
};

}  // namespace headrace
