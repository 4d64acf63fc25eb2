#include "bypass/client_stack.h"

#include <algorithm>
#include <utility>

#include "bypass/client_transport.h"
#include "bypass/stack.h"
#include "core/quiet_thread.h"

namespace headrace::bypass {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBackgroundPause{5};  // between two turns while no thread waits
constexpr milliseconds kWatchPause{10};
constexpr milliseconds kConnectPause{1};
constexpr milliseconds kKept{1000};            // a link that is not used
constexpr milliseconds kLongestAttempt{2000};  // a server may not have noticed yet that the link's last client is gone

}  // namespace

ClientStack::ClientStack(std::unique_ptr<ClientPorts> ports, Now now)
    : ports_(std::move(ports)), now_(std::move(now)) {}

ClientStack::~ClientStack() {
  std::thread thread;
  {
    const LockGuard lock(stack_mutex);
    ending_ = true;
    thread = std::move(thread_);
  }
  changed_.notify_all();
  if (thread.joinable()) thread.join();
  const LockGuard lock(stack_mutex);
  links_.clear();
}

ClientStack::Link& ClientStack::link_to(const PortAddress& address) {
  auto text = address.text();
  const auto found = std::ranges::find(links_, text, [](const auto& link) { return link->address; });
  if (found != links_.end()) return **found;
  if (!thread_.joinable()) thread_ = start_quiet_thread([this] { run(); });
  auto opened = ports_->open(address);
  if (std::ranges::any_of(links_, [&opened](const auto& link) { return link->own_ip == opened.own.ip; })) {
    throw Error(ErrorKind::kInvalid, "address '" + text +
                                         "': another server of this process has the same ip; required "
                                         "is a network for each server");
  }
  advance_stack(now_());
  auto link = std::make_unique<Link>();
  link->address = std::move(text);
  link->own_ip = opened.own.ip;
  link->server_ip = opened.server_ip;
  link->claim = std::move(opened.claim);
  link->interface = std::make_unique<Interface>(std::move(opened.port), opened.own, address.mtu);
  changed_.notify_all();
  return *links_.emplace_back(std::move(link));
}

std::unique_ptr<Transport> ClientStack::connect(const PortAddress& address, milliseconds timeout,
                                                const Interrupt& interrupt) {
  using Clock = Transport::Clock;
  const auto deadline = Clock::now() + std::min(timeout, kLongestAttempt);
  std::unique_ptr<ClientTransport> transport;
  {
    const LockGuard lock(stack_mutex);
    transport = std::make_unique<ClientTransport>(*this, link_to(address));
  }
  for (auto interrupt_at = Clock::now() + kInterruptSlice;;) {
    {
      const LockGuard lock(stack_mutex);
      if (transport->connected(address.tcp_port)) return transport;
      turn();
    }
    const auto now = Clock::now();
    if (now >= deadline) throw ConnectionLost(address.place + ": no server answers");
    if (interrupt && now >= interrupt_at) {
      interrupt();
      interrupt_at = now + kInterruptSlice;
    }
    std::this_thread::sleep_for(kConnectPause);
  }
}

void ClientStack::turn() {
  const auto now = now_();
  advance_stack(now);
  for (const auto& link : links_) link->interface->poll();
  for (const auto& link : links_) link->interface->flush();
  turned_ = now;
  if (now >= watch_at_) watch(now);
}

// Removes links whose server is gone, and those that are not used any more.
void ClientStack::watch(Deadline now) {
  watch_at_ = now + kWatchPause;
  for (std::size_t i = links_.size(); i-- > 0;) {
    auto& link = *links_[i];
    const bool unused = link.users.empty() && now - link.used >= kKept && !link.interface->is_sending();
    if (link.interface->watch() || unused) remove(link);
  }
}

void ClientStack::remove(Link& link) {
  for (auto* user : link.users) user->lose();
  std::erase_if(links_, [&link](const auto& each) { return each.get() == &link; });
}

void ClientStack::run() {
  const LockGuard lock(stack_mutex);
  while (!ending_) {
    if (links_.empty()) {
      changed_.wait(stack_mutex);
    } else if (const auto now = now_(); now - turned_ >= kBackgroundPause) {
      turn();
    } else {
      changed_.wait_until(stack_mutex, std::chrono::steady_clock::now() + kBackgroundPause);
    }
  }
}

}  // namespace headrace::bypass
