// headrace-bypass: the server of `headrace serve`, with user-space networking on the addresses that begin with dpdk:.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bypass/command.h"
#include "bypass/dpdk.h"
#include "bypass/pacing.h"
#include "bypass/polling_loop.h"
#include "bypass/socket_file.h"
#include "core/error.h"
#include "io/loop.h"

namespace headrace::bypass {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWarningPause = std::chrono::seconds(1);
constexpr auto kWatchPause = std::chrono::milliseconds(10);
constexpr auto kLastReplies = std::chrono::milliseconds(500);  // in which peers may take them

std::atomic<bool> stop_requested = false;

// A second signal ends the process at once, but for SIGHUP: a terminal that is closed sends two.
void on_signal(int number) {
  stop_requested.store(true);
  std::signal(number, number == SIGHUP ? SIG_IGN : SIG_DFL);
}

void watch_signals() {
  std::signal(SIGPIPE, SIG_IGN);  // of a socket of DPDK whose other end is gone
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    if (std::signal(number, on_signal) == SIG_IGN && number == SIGHUP) std::signal(number, SIG_IGN);  // under nohup
  }
}

// A closed pipe does not end the server.
void say(const std::string& line) {
  std::fprintf(stdout, "%s\n", line.c_str());
  std::fflush(stdout);
}

void warn(const std::string& line) { std::fprintf(stderr, "headrace: warning: %s\n", line.c_str()); }

std::size_t warn_of(const Server& server, std::size_t warned) {
  const auto notices = server.notices();
  for (; warned < notices.size(); ++warned) warn(notices[warned]);
  return warned;
}

void poll(PollingLoop& loop, const Server& server, Polling polling, std::size_t warned) {
  auto now = Clock::now();
  auto warn_at = now;
  auto watch_at = now;
  for (Pacing pacing(polling, now); !stop_requested.load(std::memory_order_relaxed); now = Clock::now()) {
    bool busy = false;
    try {
      busy = loop.turn(now);
      if (now >= watch_at) {
        loop.watch();
        watch_at = now + kWatchPause;
      }
      if (now >= warn_at) {
        warned = warn_of(server, warned);
        warn_at = now + kWarningPause;
      }
    } catch (const std::bad_alloc&) {
      // For the moment: what was not done is done in the next turn.
    }
    switch (pacing.after_turn(busy, now)) {
      case Pacing::Pause::kNone:
        break;
      case Pacing::Pause::kYield:
        std::this_thread::yield();
        break;
      case Pacing::Pause::kNap:
        std::this_thread::sleep_for(Pacing::kNap);
    }
  }
}

// Sends the replies that there are.
void send_last_replies(PollingLoop& loop) {
  const auto deadline = Clock::now() + kLastReplies;
  for (auto now = Clock::now(); now < deadline; now = Clock::now()) {
    if (!loop.turn(now) && !loop.has_output()) return;
    std::this_thread::yield();
  }
}

void listen(PollingLoop& loop, Dpdk& dpdk, const PortAddress& address) {
  for (unsigned link = 0; link < address.links; ++link) {
    auto port = dpdk.open(address, Dpdk::End::kServer, link);
    auto interface = std::make_unique<Interface>(std::move(port), address.server_subnet(link), address.mtu);
    try {
      loop.listen(std::move(interface), address.tcp_port, address.local());
    } catch (const Error& error) {
      throw Error(error.kind(), "address '" + address.text() + "': " + error.what());
    }
  }
  say("listening on " + address.text());
}

void serve(Command command) {
  std::deque<SocketFile> sockets_of_links;
  for (const auto& address : command.ports) {
    if (address.has_socket_file()) sockets_of_links.emplace_back(address.sockets(), address.text());
  }
  Dpdk dpdk(command.ports, stderr);
  Server server(std::move(command.server));
  const std::size_t warned = warn_of(server, 0);
  const LoopOptions options{.token = std::move(command.token), .max_connections = command.max_connections};
  Loop sockets(server, options);
  std::exception_ptr failed;  // the first failure of what ends the server; all of it is done nevertheless
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  };
  {
    PollingLoop loop(server, options);
    for (const auto& address : command.ports) listen(loop, dpdk, address);
    for (const auto& address : command.sockets) say("listening on " + sockets.listen(address));
    poll(loop, server, command.polling, warned);
    attempt([&] { send_last_replies(loop); });
  }
  sockets.close();
  attempt([&] { server.close(); });  // after all connections: their clients are to look for this server's successor
  attempt([&] { server.close_shards(); });
  if (failed) std::rethrow_exception(failed);
}

}  // namespace
}  // namespace headrace::bypass

int main(int argc, char** argv) {
  using namespace headrace::bypass;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--check"}) return 0;  // it starts: its libraries are there
  ::umask(077);                                                // for the socket files that DPDK creates
  watch_signals();
  try {
    serve(Command::parse(words));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "headrace: %s\n", error.what());
    return 2;
  }
}
