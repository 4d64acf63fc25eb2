#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "io/address.h"
#include "io/client.h"
#include "io/loop.h"
#include "io/unix_socket.h"
#include "wire/batch_sections.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;
using std::chrono::milliseconds;

namespace {

Deadline in(int ms) { return std::chrono::steady_clock::now() + milliseconds(ms); }

// Short polling: true as soon as `condition` holds, false after ten seconds.
bool eventually(auto condition) {
  for (const auto deadline = in(10'000); std::chrono::steady_clock::now() < deadline;) {
    if (condition()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

std::optional<ErrorKind> kind_of(auto call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

struct Served {
  explicit Served(TableOptions options = small_table(), Limits limits = {}) : loop(server, limits) {
    table = server.add_table("replay", std::move(options));
    address = loop.listen("unix:@");
  }
  ~Served() { close(); }
  void close() {
    server.close();
    loop.close();
  }

  Server server;
  std::shared_ptr<Table> table;
  Loop loop;
  std::string address;
};

struct Batch {
  explicit Batch(std::uint32_t size)
      : block(block_bytes(small_signature(), size)), view(lay_out(small_signature(), size, block.data())) {}
  Bytes block;
  BatchView view;
};

bool sample(Client& client, Batch& batch, std::optional<milliseconds> wait) {
  return client.sample("replay", small_signature(), batch.view, 0.4, wait);
}

class Folder {
 public:
  Folder() {
    std::string pattern = "/tmp/headrace-io-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~Folder() {
    ::unlink(socket().c_str());
    ::rmdir(path_.c_str());
  }
  std::string socket() const { return path_ + "/socket"; }

 private:
  std::string path_;
};

bool exists(const std::string& path) {
  struct stat file;
  return ::lstat(path.c_str(), &file) == 0;
}

}  // namespace

TEST_CASE("addresses are parsed, and refused with what is required") {
  CHECK(Address::parse("unix:/run/a").kind == Address::Kind::kUnixPath);
  CHECK(Address::parse("unix:/run/a").name == "/run/a");
  CHECK(Address::parse("unix:@a").kind == Address::Kind::kUnixAbstract);
  CHECK(Address::parse("unix:@a").text() == "unix:@a");
  CHECK(Address::parse("unix:@").name.empty());
  for (const std::string text : {"", "unix:", "tcp://host:7447", "/run/a"}) {
    CAPTURE(text);
    CHECK(kind_of([&] { Address::parse(text); }) == ErrorKind::kInvalid);
  }
  CHECK(kind_of([] { Address::parse("unix:/" + std::string(200, 'x')); }) == ErrorKind::kInvalid);
}

TEST_CASE("every request does over a socket what it does directly") {
  Served served;
  Client client(served.address, in(5000));
  CHECK(client.signature("replay") == small_signature());
  CHECK(client.insert("replay", chunk_of(10)) == 0);
  CHECK(client.insert("replay", chunk_of(10)) == 10);
  CHECK(served.table->size() == 20);

  Batch batch(8);
  REQUIRE(sample(client, batch, {}));
  for (int i = 0; i < 8; ++i) {
    const auto step = batch.view.key[i] % 10;
    const auto* observation = reinterpret_cast<const float*>(batch.view.observation) + 2 * i;
    const auto* next = reinterpret_cast<const float*>(batch.view.next_observation) + 2 * i;
    CHECK(observation[0] == float(step));
    CHECK(next[1] == -float(step + 1));
    CHECK(reinterpret_cast<const std::int64_t*>(batch.view.action)[i] == std::int64_t(step));
    CHECK(batch.view.reward[i] == float(step) + 0.5f);
    CHECK(batch.view.discount[i] == doctest::Approx(step == 9 ? 0.0 : 0.9));
    CHECK(batch.view.probability[i] == doctest::Approx(1.0 / 20));
    CHECK(batch.view.weight[i] == doctest::Approx(1.0));
  }
  const std::vector<std::uint64_t> keys = {0, 19, 500};
  const std::vector<float> priorities = {2, 3, 4};
  CHECK(client.update_priorities("replay", keys, priorities) == 2);

  CHECK(client.publish("policy", 0, as_bytes("weights")) == 1);
  CHECK(client.fetch("policy", 1) == std::nullopt);
  const auto blob = client.fetch("policy", 0);
  REQUIRE(blob);
  CHECK(blob->first == 1);
  CHECK(as_text(blob->second) == "weights");

  client.put("episodes", as_bytes("one"));
  client.put("episodes", as_bytes("two"));
  const auto messages = client.drain("episodes");
  REQUIRE(messages.size() == 2);
  CHECK(as_text(messages[1]) == "two");
  CHECK(client.stats().find("\"inserts\": 20") != std::string::npos);
}

TEST_CASE("errors of the server keep their kind, and the connection goes on") {
  Served served;
  Client client(served.address, in(5000));
  auto chunk = chunk_of(4);
  chunk[0] = std::byte{0};
  CHECK(kind_of([&] { client.insert("replay", chunk); }) == ErrorKind::kRefused);
  CHECK(kind_of([&] { client.insert("nowhere", chunk_of(4)); }) == ErrorKind::kNotFound);
  CHECK(kind_of([&] { client.put(std::string(300, 'x'), {}); }) == ErrorKind::kRefused);
  const std::vector<std::uint64_t> keys = {0};
  CHECK(kind_of([&] { client.update_priorities("replay", keys, {}); }) == ErrorKind::kInvalid);
  Batch batch(4);
  const Signature other{{"float64", {1}}, {"int64", {}}, 1};
  CHECK(kind_of([&] { client.sample("replay", other, batch.view, 0.4, milliseconds(0)); }) == ErrorKind::kInvalid);
  CHECK(client.insert("replay", chunk_of(4)) == 0);
}

TEST_CASE("a large blob arrives whole, both ways") {
  Served served;
  Client client(served.address, in(5000));
  Bytes blob(20'000'000);
  for (std::size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<std::byte>(i * 2654435761u >> 13);
  client.publish("policy", 3, blob);
  CHECK(served.server.parameters().fetch("policy")->bytes == blob);
  CHECK(client.fetch("policy", 0)->second == blob);
}

TEST_CASE("frames beyond the limit are refused on either side") {
  Served served(small_table(), {.max_frame_bytes = 4096});
  Client modest(served.address, in(5000), {}, {.max_frame_bytes = 4096});
  CHECK(kind_of([&] { modest.publish("policy", 0, Bytes(5000)); }) == ErrorKind::kRefused);
  CHECK(modest.publish("policy", 0, Bytes(100)) == 1);
  served.server.parameters().publish("large", 1, Bytes(5000));
  CHECK(kind_of([&] { modest.fetch("large", 0); }) == ErrorKind::kRefused);
  CHECK(modest.fetch("policy", 0)->second.size() == 100);

  Served generous;
  generous.server.parameters().publish("large", 1, Bytes(5000));
  Client small(generous.address, in(5000), {}, {.max_frame_bytes = 4096});
  CHECK(kind_of([&] { small.fetch("large", 0); }) == ErrorKind::kCorrupt);
  CHECK(kind_of([&] { small.stats(); }) == ErrorKind::kClosed);
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
        Client client(served.address, in(5000));
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

TEST_CASE("a held insert goes on when someone samples") {
  Served served(limited_table());
  std::atomic<int> stored = 0;
  std::jthread actor([&] {
    Client client(served.address, in(5000));
    for (int i = 0; i < 12; ++i) {
      client.insert("replay", chunk_of(8));
      ++stored;
    }
  });
  REQUIRE(eventually([&] { return served.table->stats().insert_blocked_seconds > 0; }));
  CHECK(stored < 12);
  Client learner(served.address, in(5000));
  Batch remote(8);
  Batch direct(8);
  while (stored < 12) {
    sample(learner, remote, milliseconds(100));
    served.table->sample(direct.view, 0.4, in(100));
  }
  actor.join();
  CHECK(served.table->stats().inserts == 96);
}

TEST_CASE("a sample waits for its inserts, or to its deadline") {
  Served served;
  Client learner(served.address, in(5000));
  Batch batch(4);
  CHECK_FALSE(sample(learner, batch, milliseconds(0)));
  CHECK_FALSE(sample(learner, batch, milliseconds(20)));
  std::jthread actor([&] {
    CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
    Client(served.address, in(5000)).insert("replay", chunk_of(8));
  });
  CHECK(sample(learner, batch, std::nullopt));
}

TEST_CASE("a peer that hangs up while held is forgotten") {
  Served served(limited_table());
  {
    std::atomic<bool> stop = false;
    struct Stopped : std::exception {};
    Client client(served.address, in(5000), [&] {
      if (stop) throw Stopped();
    });
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
  Client other(served.address, in(5000));
  other.stats();
  CHECK(served.table->stats().inserts == inserts);
}

TEST_CASE("clients get kClosed when the server closes, idle or held") {
  Served served(limited_table());
  Client idle(served.address, in(5000));
  idle.stats();
  std::jthread actor([&] {
    Client client(served.address, in(5000));
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

TEST_CASE("close() of a client ends a call that is under way") {
  Served served;
  Client client(served.address, in(5000));
  std::jthread learner([&] {
    Batch batch(4);
    CHECK(kind_of([&] { sample(client, batch, std::nullopt); }) == ErrorKind::kClosed);
  });
  CHECK(eventually([&] { return served.table->stats().sample_blocked_seconds > 0; }));
  client.close();
}

TEST_CASE("an abstract name vanishes with its server") {
  std::string address;
  {
    Served served;
    address = served.address;
    CHECK(address.starts_with("unix:@headrace-"));
    CHECK(kind_of([&] { UnixListener second(Address::parse(address)); }) == ErrorKind::kSystem);
    Client(address, in(5000)).stats();
  }
  CHECK(kind_of([&] { Client(address, in(0)); }) == ErrorKind::kSystem);
}

TEST_CASE("a client waits for its server to appear") {
  const Folder folder;
  Server server;
  Loop loop(server);
  std::jthread late([&] {
    std::this_thread::sleep_for(milliseconds(30));
    loop.listen("unix:" + folder.socket());
  });
  CHECK(Client("unix:" + folder.socket(), in(10'000)).stats().starts_with("{"));
}

TEST_CASE("a socket file is its owner's alone, and goes with its server") {
  const Folder folder;
  Server server;
  {
    Loop loop(server);
    CHECK(loop.listen("unix:" + folder.socket()) == "unix:" + folder.socket());
    struct stat file;
    REQUIRE(::lstat(folder.socket().c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    CHECK(kind_of([&] { loop.listen("unix:" + folder.socket()); }) == ErrorKind::kSystem);  // in use
    Client("unix:" + folder.socket(), in(5000)).stats();
  }
  CHECK_FALSE(exists(folder.socket()));
}

TEST_CASE("a dead socket file is replaced, any other file is left") {
  const Folder folder;
  const auto address = Address::parse("unix:" + folder.socket());
  {
    // What a server that was killed leaves: the file without a listener.
    const UnixListener listener(address);
    REQUIRE(::rename(folder.socket().c_str(), (folder.socket() + "2").c_str()) == 0);
  }
  REQUIRE(::rename((folder.socket() + "2").c_str(), folder.socket().c_str()) == 0);
  Server server;
  {
    Loop loop(server);
    loop.listen("unix:" + folder.socket());
    Client("unix:" + folder.socket(), in(5000)).stats();
  }
  ::close(::open(folder.socket().c_str(), O_CREAT | O_WRONLY, 0600));
  Loop loop(server);
  CHECK(kind_of([&] { loop.listen("unix:" + folder.socket()); }) == ErrorKind::kSystem);
  CHECK(exists(folder.socket()));
}

TEST_CASE("bytes that are no frame get an error and the end, and the server goes on") {
  Served served;
  const auto socket = connect_unix(Address::parse(served.address));
  const std::string nonsense(100, '?');
  REQUIRE(::send(socket.get(), nonsense.data(), nonsense.size(), 0) == 100);
  Bytes received;
  REQUIRE(eventually([&] {
    std::array<std::byte, 4096> bytes;
    const auto count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) received += std::span(bytes).first(static_cast<std::size_t>(count));
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }));
  const auto replies = replies_in(received);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kCorrupt));
  Client(served.address, in(5000)).stats();
}
