// A client's connection to a session in the same thread. Time passes only while a session holds a request.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>

#include "io/client_network.h"
#include "wire_fixtures.h"

namespace headrace::testing {

class SessionTransport : public Transport {
 public:
  explicit SessionTransport(Server& server) : session(server) {}

  Transfer send(std::span<iovec> parts) override {
    Bytes bytes;
    for (const auto& part : parts) bytes += {static_cast<const std::byte*>(part.iov_base), part.iov_len};
    REQUIRE(feed(session, bytes, now) == bytes.size());
    answers += take_output(session, now);
    return {.outcome = Outcome::kMoved, .bytes = bytes.size()};
  }
  Transfer receive(std::span<iovec> parts) override {
    if (lose_answers) answers.clear();
    if (lose_answers) return {.outcome = Outcome::kHungUp};
    if (answers.empty()) wait_for_session();
    const auto count = std::min(answers.size(), parts.front().iov_len);
    std::memcpy(parts.front().iov_base, answers.data(), count);
    answers.erase(answers.begin(), answers.begin() + static_cast<std::ptrdiff_t>(count));
    return {.outcome = Outcome::kMoved, .bytes = count};
  }
  bool has_input() override { return !answers.empty(); }
  void await_reply(Clock::time_point) override {}
  Event wait(Waker&, std::chrono::milliseconds) override { return Event::kInput; }
  FileDescriptor take_descriptor() override { return {}; }
  void shut() override {}

  // As its loop does when the table wakes.
  void resume() {
    session.resume(now);
    answers += take_output(session, now);
  }

  OpenSession session;
  Session::Time now = later(0);
  Bytes answers;
  bool lose_answers = false;
  int waits = 0;
  std::function<void()> while_waiting = [] {};

 private:
  void wait_for_session() {
    REQUIRE(session.blocked());
    ++waits;
    now = session.deadline();
    while_waiting();
    resume();
  }
};

class SessionNetwork : public ClientNetwork {
 public:
  explicit SessionNetwork(Server& server) : server_(server) {}

  std::unique_ptr<Transport> open(const Address&, std::chrono::milliseconds, const Interrupt&) override {
    auto made = std::make_unique<SessionTransport>(server_);
    transport = made.get();
    return made;
  }
  Clock::time_point now() override { return transport == nullptr ? later(0) : transport->now; }

  SessionTransport* transport = nullptr;  // the last

 private:
  Server& server_;
};

}  // namespace headrace::testing
