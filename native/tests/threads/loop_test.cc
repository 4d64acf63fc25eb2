#include "io/loop.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "io/unix_socket.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

// Everything until the server closes.
Bytes received_to_the_end(const FileDescriptor& socket) {
  Bytes received;
  REQUIRE(eventually([&] {
    std::array<std::byte, 4096> bytes;
    const auto count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) received += std::span(bytes).first(static_cast<std::size_t>(count));
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }));
  return received;
}

void send_all(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

bool is_open(const FileDescriptor& socket) {
  char byte;
  const auto count = ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count > 0 || (count < 0 && errno == EAGAIN);
}

// A process with copies of all descriptors but one.
class ForkedProcess {
 public:
  explicit ForkedProcess(const FileDescriptor& not_copied) : id_(::fork()) {
    REQUIRE(id_ >= 0);
    if (id_ > 0) return;
    ::close(not_copied.get());
    for (;;) ::pause();
  }
  ~ForkedProcess() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;

 private:
  const pid_t id_;
};

// That this process watches with epoll.
std::size_t watched_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream info(entry.path());
    for (std::string line; std::getline(info, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("a connection ends for the server and for its peer, even if a forked process has a copy of its socket") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    CAPTURE(where);
    Served served(small_table(), {}, where);
    const auto watched = watched_descriptors();
    auto leaves = connect_to(Address::parse(served.address), milliseconds(5000));
    REQUIRE(eventually([&] { return served.loop.connections() == 1 && watched_descriptors() == watched + 1; }));
    {
      const ForkedProcess forked(leaves);
      leaves = {};
      CHECK(eventually([&] { return served.loop.connections() == 0; }));
      CHECK(watched_descriptors() == watched);
    }
    for (const bool by_the_session : {true, false}) {
      const auto stays = connect_to(Address::parse(served.address), milliseconds(5000));
      REQUIRE(eventually([&] { return served.loop.connections() == 1; }));
      const ForkedProcess forked(stays);
      if (by_the_session) {
        send_all(stays, as_bytes(std::string(100, '?')));
      } else {
        served.close();
      }
      CHECK(replies_in(received_to_the_end(stays)).size() == (by_the_session ? 1 : 0));
    }
  }
}

TEST_CASE("several clients at once: every chunk arrives once") {
  Served served;
  constexpr int kClients = 4;
  constexpr int kChunks = 40;
  std::array<std::vector<std::uint64_t>, kClients> keys;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&, i] {
        Client client(to(served.address));
        for (int n = 0; n < kChunks; ++n) keys[i].push_back(client.insert("replay", chunk_of(5)));
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& each : keys) all.insert(all.end(), each.begin(), each.end());
  std::sort(all.begin(), all.end());
  REQUIRE(all.size() == kClients * kChunks);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == 5 * i);
  CHECK(eventually([&] { return served.loop.connections() == 0; }));
}

TEST_CASE("a blocked insert continues after a sample") {
  Served served(limited_table());
  std::atomic<int> stored = 0;
  std::jthread actor([&] {
    Client client(to(served.address));
    for (int i = 0; i < 12; ++i) {
      client.insert("replay", chunk_of(8));
      ++stored;
    }
  });
  REQUIRE(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
  CHECK(stored < 12);
  Client learner(to(served.address));
  Batch remote(8);
  Batch direct(8);
  while (stored < 12) {
    sample(learner, remote, milliseconds(100));
    served.table->sample(direct.view, 0.4, in(100));
  }
  actor.join();
  CHECK(served.table->stats().inserts == 96);
}

TEST_CASE("a connection handed to the sampling thread can send every other request too") {
  Served served(limited_table());
  Client client(to(served.address));
  Batch batch(8);
  CHECK_FALSE(sample(client, batch, milliseconds(0)));  // from here on it is the other thread's
  client.insert("replay", chunk_of(8));
  CHECK(sample(client, batch, milliseconds(0)));
  CHECK(client.publish("policy", 0, Bytes(1000)) == 1);
  std::jthread actor([&] {
    Client other(to(served.address));
    other.insert("replay", chunk_of(8));
    CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
    for (int i = 0; i < 3; ++i) other.insert("replay", chunk_of(8));
  });
  for (int i = 0; i < 4; ++i) CHECK(sample(client, batch, std::nullopt));  // held there, and woken
}

TEST_CASE("a peer that disconnects while its request is blocked is removed") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(limited_table(), {}, where);
    {
      std::atomic<bool> stop = false;
      struct Stopped : std::exception {};
      auto options = to(served.address);
      options.interrupt = [&] {
        if (stop) throw Stopped();
      };
      Client client(options);
      std::jthread actor([&] { CHECK_THROWS_AS(for (;;) client.insert("replay", chunk_of(8)), Stopped); });
      CHECK(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
      stop = true;  // as Ctrl-C does
      actor.join();
      CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
    }
    CHECK(eventually([&] { return served.loop.connections() == 0; }));
    const auto inserts = served.table->stats().inserts;
    Batch batch(8);
    CHECK(served.table->try_sample(batch.view, 0.4));
    Client other(to(served.address));
    other.stats();
    CHECK(served.table->stats().inserts == inserts);
  }
}

TEST_CASE("clients get kClosed when the server closes, idle or held") {
  Served served(limited_table());
  Client idle(to(served.address));
  idle.stats();
  std::jthread actor([&] {
    Client client(to(served.address));
    CHECK(kind_of([&] {
            for (;;) client.insert("replay", chunk_of(8));
          }) == ErrorKind::kClosed);
  });
  CHECK(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
  served.close();
  actor.join();
  CHECK(served.loop.connections() == 0);
  CHECK(kind_of([&] { idle.stats(); }) == ErrorKind::kClosed);
  CHECK(kind_of([&] { served.loop.listen("unix:@"); }) == ErrorKind::kClosed);
}

TEST_CASE("two threads may close a loop at once, and it is closed for both") {
  Served served;
  Batch batch(4);
  CHECK_FALSE(served.table->try_sample(batch.view, 0.4));  // so that the insert wakes
  std::atomic<int> closing = 0;
  std::atomic<bool> held_up = false;
  served.table->add_waker([&] {
    if (held_up.exchange(true)) return;
    CHECK(eventually([&] { return closing.load() == 2; }));
    std::this_thread::sleep_for(milliseconds(50));  // both wait for this thread by now, most likely
  });
  std::jthread actor([&] {
    try {
      Client(to(served.address)).insert("replay", chunk_of(8));
    } catch (const Error&) {  // the loop may close before it answers
    }
  });
  REQUIRE(eventually([&] { return held_up.load(); }));
  const auto close = [&] {
    ++closing;
    CHECK_NOTHROW(served.loop.close());
    CHECK(served.loop.connections() == 0);
  };
  std::jthread one(close);
  std::jthread other(close);
}

TEST_CASE("a table dropped while the loop uses it is released at once") {
  Served served(limited_table());
  Client client(to(served.address));
  Batch batch(8);
  CHECK_FALSE(sample(client, batch, milliseconds(50)));  // held, so the loop waits for the table's waker
  const std::weak_ptr<Table> table = served.table;
  served.table.reset();
  CHECK(client.drop("replay") == 1);
  CHECK(eventually([&] { return table.expired(); }));
  CHECK(kind_of([&] { client.signature("replay"); }) == ErrorKind::kNotFound);
}

TEST_CASE("no connection waits for a table that is being made") {
  Served served;
  const auto other = served.server.add_table("other", small_table());
  std::atomic<bool> closing = false;
  std::atomic<bool> answered = false;
  served.table->add_waker([&] {  // called as the old table is closed, amid kOpenTable
    closing = true;
    CHECK(eventually([&] { return answered.load(); }));
  });
  std::jthread learner([&] {
    Client client(to(served.address));
    CHECK(client.open_table("replay", small_table(), true) == 0);
    CHECK(client.insert("replay", chunk_of(4)) == 0);  // and then it is served as before
    CHECK(client.drop("other") == 1);
    CHECK(client.insert("replay", chunk_of(4)) == 4);
  });
  CHECK(eventually([&] { return closing.load(); }));
  Client actor(to(served.address));
  CHECK(actor.insert("other", chunk_of(4)) == 0);
  Batch batch(4);
  CHECK(actor.sample("other", small_signature(), batch.view, 0.4, milliseconds(1000)));
  answered = true;
}

TEST_CASE("time in which the loop itself was delayed does not count against its peers") {
  Served served(small_table(), {.limits = {.frame_wait = std::chrono::seconds(6)}});
  Batch batch(4);
  CHECK_FALSE(served.table->try_sample(batch.view, 0.4));  // so that the insert wakes
  std::atomic<bool> held_up = false;
  served.table->add_waker([&] {
    if (held_up.exchange(true)) return;
    std::this_thread::sleep_for(milliseconds(7500));
  });
  const auto innocent = connect_unix(Address::parse(served.address));
  const auto request = frame(MessageType::kSignature, "replay");
  send_all(innocent, std::span(request).first(10));
  std::jthread actor([&] { Client(to(served.address)).insert("replay", chunk_of(8)); });
  REQUIRE(eventually([&] { return held_up.load(); }));
  send_all(innocent, std::span(request).subspan(10));
  Bytes reply(kFrameHeaderBytes);
  REQUIRE(eventually([&] {
    return ::recv(innocent.get(), reply.data(), reply.size(), MSG_PEEK | MSG_DONTWAIT) ==
           static_cast<ssize_t>(kFrameHeaderBytes);
  }));
  CHECK(decode_header(std::span<const std::byte>(reply).first<kFrameHeaderBytes>(), Limits()).status == kOk);
}

TEST_CASE("requests that arrive together are all answered, even if no more bytes arrive") {
  Served served;
  const auto socket = connect_unix(Address::parse(served.address));
  Bytes requests;
  for (std::uint64_t i = 1; i <= 1000; ++i) requests += frame(MessageType::kSignature, "replay", {}, i);
  send_all(socket, requests);
  const std::size_t expected = 1000 * (kFrameHeaderBytes + small_signature().encode().size());
  Bytes received;
  CHECK(eventually([&] {
    std::array<std::byte, 65536> bytes;
    const auto count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count > 0) received += std::span<const std::byte>(bytes).first(static_cast<std::size_t>(count));
    return received.size() == expected;
  }));
  CHECK(replies_in(received).size() == 1000);
}

TEST_CASE("requests are served even if their peer then closes its sending side") {
  Served served;
  const auto socket = connect_unix(Address::parse(served.address));
  Bytes requests;
  for (std::uint64_t i = 1; i <= 1000; ++i) requests += frame(MessageType::kPut, "episodes", put_payload("x"), i);
  send_all(socket, requests);
  REQUIRE(::shutdown(socket.get(), SHUT_WR) == 0);
  CHECK(eventually([&] { return served.server.mailbox("episodes")->stats().received == 1000; }));
}

TEST_CASE("many blocked inserts continue in order, each until its deadline") {
  Served served(limited_table());
  constexpr int kActors = 8;
  std::atomic<int> stored = 0;
  std::vector<std::jthread> actors;
  for (int i = 0; i < kActors; ++i) {
    actors.emplace_back([&] {
      Client client(to(served.address));
      for (int n = 0; n < 4; ++n) {
        client.insert("replay", chunk_of(8));
        ++stored;
      }
    });
  }
  REQUIRE(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
  const auto hurried = connect_unix(Address::parse(served.address));
  send_all(hurried, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), 30)));
  Bytes reply(kFrameHeaderBytes);
  CHECK(eventually([&] {
    return ::recv(hurried.get(), reply.data(), reply.size(), MSG_DONTWAIT) == static_cast<ssize_t>(kFrameHeaderBytes);
  }));
  CHECK(decode_header(std::span<const std::byte>(reply).first<kFrameHeaderBytes>(), Limits()).status == kNothing);
  Batch batch(8);
  CHECK(eventually([&] {
    served.table->try_sample(batch.view, 0.4);
    return stored == 4 * kActors;
  }));
}

TEST_CASE("bytes that are not a frame get an error and a close, and the server continues") {
  Served served;
  const auto socket = connect_unix(Address::parse(served.address));
  send_all(socket, as_bytes(std::string(100, '?')));
  const auto replies = replies_in(received_to_the_end(socket));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kMalformed));
  Client(to(served.address)).stats();
}

TEST_CASE("a peer that stops in the middle of a frame is closed and does not affect others") {
  Served served(small_table(), {.limits = {.frame_wait = std::chrono::seconds(1)}});
  Client client(to(served.address));
  const auto slow = connect_unix(Address::parse(served.address));
  send_all(slow, std::span<const std::byte>(frame(MessageType::kStats, "")).first(10));
  for (int i = 0; i < 20; ++i) client.insert("replay", chunk_of(4));
  const auto replies = replies_in(received_to_the_end(slow));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kSystem));
  client.stats();
}

TEST_CASE("a peer that takes no replies is closed") {
  Served served(small_table(), {.limits = {.output_wait = std::chrono::seconds(3)}});
  served.server.parameters().publish("policy", 1, Bytes(20'000'000));
  const auto deaf = connect_unix(Address::parse(served.address));
  for (int i = 0; i < 10; ++i) send_all(deaf, frame(MessageType::kFetch, "policy", fetch_payload(0)));
  CHECK(eventually([&] { return served.loop.connections() == 1; }));
  CHECK(eventually([&] { return served.loop.connections() == 0; }));
}

TEST_CASE("a peer that asks for nothing is closed after idle_wait") {
  Served served(small_table(), {.limits = {.idle_wait = std::chrono::seconds(1)}});
  const auto idle = connect_unix(Address::parse(served.address));
  CHECK(received_to_the_end(idle).empty());
}

TEST_CASE("a client is closed when it was idle for idle_wait, but not where its end would be seen") {
  const LoopOptions impatient{.limits = {.idle_wait = std::chrono::seconds(1)}};
  Served remote(small_table(), impatient, "tcp://127.0.0.1:0");
  Served local(small_table(), impatient);
  Client far(to(remote.address));
  Client near(to(local.address));
  far.stats();
  near.stats();
  CHECK(eventually([&] { return remote.loop.connections() == 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // sessions are looked at once a second
  CHECK(local.loop.connections() == 1);
  CHECK_NOTHROW(near.stats());
}

TEST_CASE("above max_connections a peer gets an error, and freed connections can be used again") {
  Served served(small_table(), {.max_connections = 2});
  const auto first = connect_unix(Address::parse(served.address));
  auto second = connect_unix(Address::parse(served.address));
  REQUIRE(eventually([&] { return served.loop.connections() == 2; }));
  std::string what;
  for (int patience = 50; patience <= 5000 && what.find("2 connections") == std::string::npos; patience *= 10) {
    CHECK(kind_of([&] { Client({.address = served.address, .connect_timeout = milliseconds(patience)}); }, &what) ==
          ErrorKind::kSystem);
  }
  CHECK_MESSAGE(what.find("2 connections") != std::string::npos, what);
  std::jthread leaver([&] { second = {}; });
  Client(to(served.address)).stats();  // tries until there is room
  CHECK(is_open(first));
}

TEST_CASE("among connections that have not shown the token, the oldest is closed") {
  LoopOptions options{.token = token_of("a secret of 16 bytes or more"), .max_unproven = 3};
  Served served(small_table(), std::move(options), "tcp://127.0.0.1:0");
  auto proven = to(served.address);
  proven.token = token_of("a secret of 16 bytes or more");
  Client client(proven);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 5; ++i) {
    strangers.push_back(connect_to(Address::parse(served.address), milliseconds(5000)));
    REQUIRE(strangers.back());
  }
  CHECK(eventually([&] { return !is_open(strangers[0]) && !is_open(strangers[1]); }));
  for (int i = 2; i < 5; ++i) CHECK(is_open(strangers[static_cast<std::size_t>(i)]));
  CHECK(eventually([&] { return served.loop.connections() == 4; }));  // counted after the sockets are closed
  client.stats();
}

TEST_CASE("a peer that does not show the token within proof_wait is closed") {
  LoopOptions options{.limits = {.proof_wait = std::chrono::seconds(1)}, .token = token_of("a secret of 16 bytes")};
  Served served(small_table(), std::move(options), "tcp://127.0.0.1:0");
  const auto silent = connect_to(Address::parse(served.address), milliseconds(5000));
  const auto replies = replies_in(received_to_the_end(silent));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kSystem));
}

TEST_CASE("a process without descriptors accepts waiting connections once it has some") {
  Served served(small_table(), {}, "tcp://127.0.0.1:0");
  const FileDescriptor waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_port = htons(Address::parse(served.address).port);
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rlimit before;
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const int connected = ::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&place), sizeof(place));
  std::this_thread::sleep_for(milliseconds(150));
  const auto accepted = served.loop.connections();
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(connected == 0);
  CHECK(accepted == 0);
  CHECK(eventually([&] { return served.loop.connections() == 1; }));
}
