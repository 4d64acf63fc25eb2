// A client whose server goes and comes back, or whose answers are lost on the way.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io/listener.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;
using fixtures::ScratchFolder;

namespace {

// Forwards between clients and a server, and can be told to lose replies.
class Proxy {
 public:
  explicit Proxy(const std::string& server) : server_(Address::parse(server)) {
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
  std::vector<std::unique_ptr<Listener>> listeners_ = listen_on(Address::parse("unix:@"));
  std::atomic<int> to_lose_ = 0;
  std::atomic<int> lost_ = 0;
  std::atomic<bool> silently_ = false;
  std::atomic<int> only_ = 0;
  std::vector<Pair> pairs_;
  std::jthread thread_;
};

// A server that keeps its table in a folder, and its address from one life to the next.
struct Kept {
  Kept(const std::string& folder, const std::string& where) : server({.data = folder}), loop(server) {
    table = server.open_table("replay", small_table(), false);
    address = loop.listen(where);
  }
  ~Kept() {
    loop.close();  // as a server dies: the tables are not closed first
    server.close();
  }
  Server server;
  Loop loop;
  std::shared_ptr<Table> table;
  std::string address;
};

}  // namespace

TEST_CASE("a server that goes and comes back has every acknowledged chunk once") {
  const ScratchFolder folder;
  for (const std::string& where : {"unix:" + folder.file("socket"), std::string("tcp://127.0.0.1:0")}) {
    CAPTURE(where);
    const auto data = folder.file(where.substr(0, 3));
    std::optional<Kept> kept;
    kept.emplace(data, where);
    const auto address = kept->address;
    constexpr int kChunks = 60;  // of 4 steps: all of them fit the table
    std::vector<std::uint64_t> keys;
    std::atomic<int> acknowledged = 0;
    std::atomic<int> allowed = 0;
    std::uint64_t instance = 0;
    std::vector<std::string> held;
    std::jthread actor([&] {
      Client client(to(address, 60'000));
      client.claim("run/actor", 5);
      for (int i = 0; i < kChunks; ++i) {
        CHECK(eventually([&] { return i < allowed; }));
        keys.push_back(client.insert("replay", chunk_of(4)));
        ++acknowledged;
      }
      CHECK(client.reconnections() >= 2);
      instance = client.instance();
      held = kept->server.claims().held();
    });
    for (const int many : {5, 25}) {
      allowed = many + 15;
      CHECK(eventually([&] { return acknowledged >= many; }));
      kept.reset();
      kept.emplace(data, address);
    }
    allowed = kChunks;
    actor.join();
    CHECK(instance == kept->server.instance());
    CHECK(held == std::vector<std::string>{"run/actor"});
    CHECK(std::set<std::uint64_t>(keys.begin(), keys.end()).size() == kChunks);
    CHECK(kept->table->size() == 4 * kChunks);
  }
}

TEST_CASE("a chunk and a message whose answers are lost are stored once") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address(), 60'000));
  CHECK(client.insert("replay", chunk_of(10)) == 0);
  proxy.lose_replies(1);
  CHECK(client.insert("replay", chunk_of(7)) == 10);
  CHECK(client.insert("replay", chunk_of(5)) == 17);
  CHECK(served.table->size() == 22);
  proxy.lose_replies(1);
  client.put("episodes", as_bytes("one"));
  client.put("episodes", as_bytes("two"));
  proxy.lose_replies(1);
  const auto messages = client.drain("episodes");
  REQUIRE(messages.size() == 2);
  CHECK(as_text(messages[1]) == "two");
  CHECK(client.drain("episodes").empty());
  CHECK(proxy.lost() == 3);
  CHECK(client.reconnections() == 3);
}

TEST_CASE("where connections come and answers do not, it is tried again with growing pauses") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address(), 400));
  proxy.lose_replies(1'000'000, false, MessageType::kStats);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
  CHECK(proxy.lost() >= 2);
  CHECK(proxy.lost() <= 10);  // after 0, 5, 10, 20, 40, 80, 160, 320 ms at the least
}

TEST_CASE("an answer that never comes is asked for again on another connection") {
  Served served;
  Proxy proxy(served.address);
  auto options = to(proxy.address(), 60'000);
  options.request_timeout = milliseconds(200);
  Client client(options);
  proxy.lose_replies(1, true);
  client.put("episodes", as_bytes("one"));
  CHECK(client.drain("episodes").size() == 1);
  CHECK(proxy.lost() == 1);
  CHECK(client.reconnections() == 1);
}

TEST_CASE("without a reconnect_timeout a lost answer is the end") {
  Served served;
  Proxy proxy(served.address);
  Client client(to(proxy.address()));
  proxy.lose_replies(1);
  std::string what;
  CHECK(kind_of([&] { client.insert("replay", chunk_of(7)); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find(proxy.address()) != std::string::npos, what);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
}

TEST_CASE("a server that falls silent is noticed") {
  Served served;
  Proxy proxy(served.address);
  auto options = to(proxy.address());
  options.request_timeout = milliseconds(200);
  Client client(options);
  proxy.lose_replies(1, true);
  std::string what;
  CHECK(kind_of([&] { client.stats(); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find("no answer within 200 ms") != std::string::npos, what);
}

TEST_CASE("a server that stays away is given up after reconnect_timeout") {
  auto served = std::make_unique<Served>();
  Client client(to(served->address, 150));
  client.stats();
  served.reset();
  std::string what;
  CHECK(kind_of([&] { client.stats(); }, &what) == ErrorKind::kClosed);
  CHECK_MESSAGE(what.find("no server answers") != std::string::npos, what);
}

TEST_CASE("close() ends a call that waits for its server to come back") {
  auto served = std::make_unique<Served>();
  Client client(to(served->address, 3'600'000));
  client.stats();
  served.reset();
  std::atomic<bool> begun = false;
  std::jthread caller([&] {
    begun = true;
    CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kClosed);
  });
  CHECK(eventually([&] { return begun.load(); }));
  client.close();
}

TEST_CASE("after an interrupt the next call has a new connection") {
  Served served;
  std::atomic<bool> stop = false;
  struct Stopped : std::exception {};
  auto options = to(served.address, 60'000);
  options.interrupt = [&] {
    if (stop.exchange(false)) throw Stopped();
  };
  Client client(options);
  Batch batch(4);
  stop = true;
  CHECK_THROWS_AS(sample(client, batch, std::nullopt), Stopped);
  CHECK(client.insert("replay", chunk_of(8)) == 0);
  CHECK(client.reconnections() == 1);
}

TEST_CASE("a claim that another took meanwhile is refused, and had again once it is free") {
  const ScratchFolder folder;
  const auto address = "unix:" + folder.file("socket");
  auto served = std::make_unique<Served>(small_table(), LoopOptions{}, address);
  Client client(to(address, 60'000));
  client.claim("run/learner", 1);
  served.reset();
  Server server;
  Loop loop(server);
  auto rival = server.claims().claim("run/learner", 2);
  loop.listen(address);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kRefused);
  CHECK(kind_of([&] { client.stats(); }) == ErrorKind::kRefused);
  rival.reset();
  CHECK(server.claims().held().empty());
  client.stats();
  CHECK(server.claims().held() == std::vector<std::string>{"run/learner"});
}
