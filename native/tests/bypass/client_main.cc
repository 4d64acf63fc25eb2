// headrace-bypass-client ADDRESS SERVER_IP: a client that bypasses the kernel. It does what actors and learners do,
// once, checks the replies, and prints one line. ADDRESS is the client's end of a dpdk: address, SERVER_IP the
// server's.
#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "bypass/dpdk.h"
#include "bypass/polled_client.h"
#include "bypass/stack.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::testing;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWait = std::chrono::seconds(60);
constexpr int kChunks = 50;
constexpr std::uint32_t kSteps = 8;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

class Requests {
 public:
  Requests(Interface& interface, std::uint32_t ip, std::uint16_t port)
      : interface_(interface), client_(interface, ip, port) {}

  Bytes ask(MessageType type, std::string_view name, std::span<const std::byte> payload) {
    client_.send(frame(type, name, payload));
    for (const auto deadline = Clock::now() + kWait;;) {
      const auto now = Clock::now();
      require(now < deadline, "no reply in time");
      require(!client_.tcp().lost(), "the connection is lost");
      advance_stack(now);
      if (!interface_.poll()) std::this_thread::yield();
      client_.turn();
      interface_.flush();
      if (const auto replies = client_.take_replies(); !replies.empty()) {
        require(replies[0].header.status == kOk, replies[0].text());
        return replies[0].body;
      }
    }
  }

 private:
  Interface& interface_;
  PolledClient client_;
};

void work(Requests& server) {
  auto table = numbers(std::uint8_t{1});
  auto options = small_table();
  options.capacity = 1000;
  table += as_bytes(options.encode());
  server.ask(MessageType::kOpenTable, "bypass/replay", table);
  for (std::uint64_t i = 1; i <= kChunks; ++i) {
    server.ask(MessageType::kInsert, "bypass/replay", insert_payload(chunk_of(kSteps, 1, i)));
  }
  const auto batch = server.ask(MessageType::kSample, "bypass/replay", sample_payload(64, 0.4, 1000));
  for (int i = 0; i < 64; ++i) {
    const auto first = number_at<float>(batch, 2 * sizeof(float) * static_cast<std::size_t>(i));
    const auto second = number_at<float>(batch, 2 * sizeof(float) * static_cast<std::size_t>(i) + sizeof(float));
    require(first >= 0 && first < kSteps && second == -first, "a sampled observation is not one that was inserted");
  }
  Bytes blob(3'000'000);
  for (std::size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  server.ask(MessageType::kPublish, "bypass/policy", publish_payload(0, blob));
  const auto fetched = server.ask(MessageType::kFetch, "bypass/policy", fetch_payload(0));
  require(std::ranges::equal(std::span(fetched).subspan(2 * sizeof(std::uint64_t)), blob), "the policy has changed");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  in_addr server;
  if (argc != 3 || inet_aton(argv[2], &server) == 0) return 2;
  try {
    const auto address = PortAddress::parse(argv[1]);
    Dpdk dpdk(std::span(&address, 1));
    Interface interface(dpdk.open(address, Dpdk::End::kClient), address.subnet, address.mtu);
    Requests requests(interface, ntohl(server.s_addr), address.tcp_port);
    work(requests);
    std::puts("inserted, sampled, published and fetched");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "headrace-bypass-client: %s\n", error.what());
    return 1;
  }
}
