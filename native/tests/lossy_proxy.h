// A proxy whose connections lose replies.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/address.h"
#include "io/file_descriptor.h"
#include "io/listener.h"
#include "wire/frame.h"

namespace headrace::testing {

using std::chrono::milliseconds;

// Forwards between clients and a server, and can be told to lose replies.
class Proxy {
 public:
  explicit Proxy(const std::string& server, const std::string& where = "unix:@")
      : server_(Address::parse(server)), listeners_(listen_on(Address::parse(where))) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  std::string address() const { return listeners_[0]->address().text(); }
  // From now on: `count` times, the first reply is thrown away and both connections are closed. Or, with `silently`,
  // the connections stay. Only replies to requests of one type, where one is given.
  void lose_replies(int count, bool silently = false, std::optional<MessageType> only = {}) {
    silently_ = silently;
    only_ = only ? std::to_integer<int>(encode_header({.type = static_cast<std::uint8_t>(*only)})[3]) | kReplyBit : 0;
    to_lose_ = count;
  }
  int lost() const { return lost_; }

 private:
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (auto accepted = listeners_[0]->accept(); accepted.socket) {
        pairs_.push_back({std::move(accepted.socket), connect_to(server_, milliseconds(5000))});
      }
      std::erase_if(pairs_, [this](Pair& pair) { return !forward(pair); });
      ::poll(nullptr, 0, 1);
    }
  }

  struct Pair {
    FileDescriptor client, server;
    bool deaf = false;
  };

  // False: both ends are to be closed.
  bool forward(Pair& pair) {
    if (pair.deaf) return true;
    std::array<char, 65536> bytes;
    const auto receive = [&](const FileDescriptor& from) { return ::recv(from.get(), bytes.data(), bytes.size(), 0); };
    const auto pass = [&](const FileDescriptor& to, ssize_t count) {
      if (count <= 0) return count < 0 && errno == EAGAIN;
      return ::send(to.get(), bytes.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) == count;
    };
    const auto reply = receive(pair.server);
    if (reply > 3 && to_lose_ > 0 && (only_ == 0 || only_ == static_cast<unsigned char>(bytes[3]))) {
      --to_lose_;
      ++lost_;
      pair.deaf = silently_;
      return pair.deaf;
    }
    return pass(pair.client, reply) && pass(pair.server, receive(pair.client));
  }

  const Address server_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::atomic<int> to_lose_ = 0;
  std::atomic<int> lost_ = 0;
  std::atomic<bool> silently_ = false;
  std::atomic<int> only_ = 0;
  std::vector<Pair> pairs_;
  std::jthread thread_;
};

}  // namespace headrace::testing
