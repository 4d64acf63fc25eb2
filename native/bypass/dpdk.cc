#define ALLOW_EXPERIMENTAL_API  // rte_intr_instance_alloc() and others are, until DPDK 23.11
#include "bypass/dpdk.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_interrupts.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bypass/dpdk_log.h"
#include "bypass/dpdk_port.h"
#include "core/error.h"
#include "io/file_descriptor.h"

namespace headrace::bypass {
namespace {

constexpr std::size_t kMegabytes = 64;                      // for DPDK itself; each port takes more
constexpr auto kEventPause = std::chrono::milliseconds(2);  // a memif port connects in some six of these

// The cores that this thread may use, restored at the end: DPDK binds it to one of them.
class SavedAffinity {
 public:
  SavedAffinity() {
    if (::pthread_getaffinity_np(::pthread_self(), sizeof(cores_), &cores_) != 0) CPU_ZERO(&cores_);
  }
  ~SavedAffinity() {
    if (CPU_COUNT(&cores_) > 0) ::pthread_setaffinity_np(::pthread_self(), sizeof(cores_), &cores_);
  }
  int first() const {
    int core = 0;
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &cores_)) ++core;
    return core;
  }

 private:
  cpu_set_t cores_;
};

std::vector<std::string> arguments_for(std::span<const PortAddress> addresses, int core) {
  std::size_t megabytes = kMegabytes;
  for (const auto& each : addresses) megabytes += each.links * DpdkPort::megabytes(each.kind);
  std::vector<std::string> arguments = {
      "headrace-bypass",         "--lcores=0@" + std::to_string(core), "--no-telemetry", "--log-level=*:error", "-m",
      std::to_string(megabytes),
  };
  const auto is_card = [](const PortAddress& each) { return each.kind == PortAddress::Kind::kPci; };
  if (std::ranges::any_of(addresses, is_card)) {
    arguments.push_back("--in-memory");  // huge pages, and nothing is left of them
  } else {
    arguments.insert(arguments.end(), {"--no-huge", "--no-shconf", "--no-pci"});
  }
  for (const auto& each : addresses) {
    if (is_card(each)) arguments.insert(arguments.end(), {"-a", each.place});
  }
  return arguments;
}

}  // namespace

// Makes DPDK's thread of events take turns with the others: in a callback that is always due it gives the mutex back
// for a while, and it has the mutex from the end of one call to the beginning of the next. Lives until the process
// ends, as that thread does.
class Dpdk::EventThread {
 public:
  EventThread()
      : always_due_(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)),
        handle_(rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE)) {
    const bool registered = always_due_ && handle_ != nullptr && rte_intr_fd_set(handle_, always_due_.get()) == 0 &&
                            rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT) == 0 &&
                            rte_intr_callback_register(handle_, &EventThread::on_due, this) == 0;
    if (!registered) throw Error(ErrorKind::kSystem, "DPDK does not start: its events can't be handled");
  }

  // The thread does nothing more: it would use memory of closed ports that rte_eal_cleanup() unmaps (22.11).
  void stop() {
    ending_.store(true);
    while (!ended_.load()) std::this_thread::yield();
  }

 private:
  static void on_due(void* self) { static_cast<EventThread*>(self)->take_turns(); }

  void take_turns() NO_THREAD_SAFETY_ANALYSIS {  // from one call to the next
    if (std::exchange(has_mutex_, false)) event_mutex.unlock();
    while (ending_.load()) {
      ended_.store(true);
      ::pause();
    }
    std::this_thread::sleep_for(kEventPause);
    event_mutex.lock();
    has_mutex_ = true;
  }

  const FileDescriptor always_due_;
  rte_intr_handle* const handle_;
  bool has_mutex_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<bool> ended_ = false;
};

Dpdk::Dpdk(std::span<const PortAddress> addresses, std::FILE* log) : log_(log) {
  const SavedAffinity affinity;
  auto arguments = arguments_for(addresses, affinity.first());
  std::vector<char*> words;
  for (auto& each : arguments) words.push_back(each.data());
  DpdkLog lines(log_);
  if (rte_eal_init(static_cast<int>(words.size()), words.data()) < 0) {
    throw Error(ErrorKind::kSystem, "DPDK does not start: " + lines.reason(rte_strerror(rte_errno)));
  }
  event_thread_ = new EventThread();
}

Dpdk::~Dpdk() {
  event_thread_->stop();
  rte_eal_cleanup();
}

std::unique_ptr<Port> Dpdk::open(const PortAddress& address, End end, unsigned link) {
  DpdkLog lines(log_);
  try {
    return std::make_unique<DpdkPort>(address, end, link, next_index_++);
  } catch (const DpdkPort::Failure& failure) {
    throw Error(ErrorKind::kSystem, "address '" + address.text() + "': " + failure.step +
                                        " failed: " + lines.reason(rte_strerror(failure.code)));
  } catch (const Error& error) {
    throw Error(error.kind(), "address '" + address.text() + "': " + error.what());
  }
}

}  // namespace headrace::bypass
