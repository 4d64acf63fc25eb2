#include "bypass/dpdk.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bypass/dpdk_log.h"
#include "bypass/dpdk_port.h"
#include "core/error.h"

namespace headrace::bypass {
namespace {

constexpr std::size_t kMegabytes = 64;  // for DPDK itself; each port takes DpdkPort::kMegabytes more

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
  std::vector<std::string> arguments = {
      "headrace-bypass",
      "--lcores=0@" + std::to_string(core),
      "--no-telemetry",
      "--log-level=*:error",
      "-m",
      std::to_string(kMegabytes + addresses.size() * DpdkPort::kMegabytes),
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

Dpdk::Dpdk(std::span<const PortAddress> addresses) {
  const SavedAffinity affinity;
  auto arguments = arguments_for(addresses, affinity.first());
  std::vector<char*> words;
  for (auto& each : arguments) words.push_back(each.data());
  DpdkLog log;
  if (rte_eal_init(static_cast<int>(words.size()), words.data()) < 0) {
    throw Error(ErrorKind::kSystem, "DPDK does not start: " + log.reason(rte_strerror(rte_errno)));
  }
}

Dpdk::~Dpdk() { rte_eal_cleanup(); }

std::unique_ptr<Port> Dpdk::open(const PortAddress& address, End end) {
  DpdkLog log;
  try {
    return std::make_unique<DpdkPort>(address, end, next_index_++);
  } catch (const DpdkPort::Failure& failure) {
    throw Error(ErrorKind::kSystem, "address '" + address.text() + "': " + failure.step +
                                        " failed: " + log.reason(rte_strerror(failure.code)));
  } catch (const Error& error) {
    throw Error(error.kind(), "address '" + address.text() + "': " + error.what());
  }
}

}  // namespace headrace::bypass
