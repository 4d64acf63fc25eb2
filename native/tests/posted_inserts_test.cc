// Inserts without waiting for answers, over a connection to a session in the same thread, whose time the test sets.
#include "io/posted_inserts.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "session_transport.h"
#include "tagged_chunks.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::uint64_t kWriter = 5;
constexpr std::size_t kRequestBytes = 4096;

struct Connected {
  explicit Connected(Server& server) : connection(make(server), ClientOptions{}, {}) {}
  std::unique_ptr<Transport> make(Server& server) {
    auto made = std::make_unique<SessionTransport>(server);
    transport = made.get();
    return made;
  }
  SessionTransport* transport;
  ClientConnection connection;
};

struct Fixture {
  void add(std::uint64_t tag, const std::string& name = "replay") { inserts.add(name, tagged(tag), ++sequence); }
  bool advance(bool wait = false) { return inserts.advance(connected->connection, wait); }

  Server server;
  std::shared_ptr<Table> table = server.add_table("replay", uniform_table());
  std::unique_ptr<Connected> connected = std::make_unique<Connected>(server);
  PostedInserts inserts{kWriter, kRequestBytes};
  std::uint64_t sequence = 0;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "chunks that come while a request is under way go into the next one, in order") {
  table->set_paused(true);
  add(1);
  REQUIRE_FALSE(advance());
  for (const std::uint64_t tag : {2, 3, 4}) {
    add(tag);
    REQUIRE_FALSE(advance());
  }
  CHECK(connected->transport->session.requests() == 1);
  table->set_paused(false);
  connected->transport->resume();
  REQUIRE(advance());
  CHECK(tags_in(*table) == Tags{1});
  REQUIRE_FALSE(advance());
  REQUIRE(advance());
  CHECK(inserts.empty());
  CHECK(connected->transport->session.requests() == 2);
  CHECK(tags_in(*table) == Tags{1, 2, 3, 4});
}

TEST_CASE_FIXTURE(Fixture, "a request has chunks of one table, and at most so many bytes") {
  const auto other = server.add_table("other", uniform_table());
  table->set_paused(true);
  add(1);
  REQUIRE_FALSE(advance());
  add(2, "other");
  add(3);
  add(4, "other");
  inserts.add("replay", chunk_of(100), ++sequence);
  REQUIRE(chunk_of(100).size() > kRequestBytes);
  table->set_paused(false);
  connected->transport->resume();
  int requests = 0;
  for (; !inserts.empty(); ++requests) REQUIRE(advance(true));
  CHECK(requests == 4);
  CHECK(tags_in(*other) == Tags{2, 4});
  CHECK(table->size() == 102);
}

TEST_CASE_FIXTURE(Fixture,
                  "what the limiter holds longer than a request may wait is requested again, and stored once") {
  table->set_paused(true);
  add(1);
  REQUIRE_FALSE(advance());
  add(2);
  auto& transport = *connected->transport;
  transport.while_waiting = [&] { table->set_paused(transport.waits < 3); };
  REQUIRE(advance(true));
  REQUIRE(advance(true));
  CHECK(transport.waits == 3);
  CHECK(transport.now == later(3 * kLongestWait.count()));
  CHECK(tags_in(*table) == Tags{1, 2});
}

TEST_CASE_FIXTURE(Fixture, "requests whose connection is lost are sent again over the next one, and stored once") {
  add(1);
  add(2);
  connected->transport->lose_answers = true;
  CHECK_THROWS_AS(advance(true), ConnectionLost);
  CHECK(tags_in(*table) == Tags{1, 2});
  add(3);
  connected = std::make_unique<Connected>(server);
  inserts.connection_is_new();
  while (!inserts.empty()) REQUIRE(advance(true));
  CHECK(tags_in(*table) == Tags{1, 2, 3});
}

TEST_CASE_FIXTURE(Fixture, "an error is thrown once, and does not stop the requests behind it") {
  add(1, "nowhere");
  REQUIRE(advance(true));
  add(2, "replay");
  add(3, "nowhere");
  REQUIRE(advance(true));
  REQUIRE(advance(true));
  CHECK(tags_in(*table) == Tags{2});
  CHECK_THROWS_AS(inserts.throw_error(), Error);
  inserts.throw_error();
}

TEST_CASE_FIXTURE(Fixture, "it is full of chunks, or of bytes, until they are answered") {
  for (int tag = 0; tag < 4; ++tag) {
    CHECK_FALSE(inserts.full());
    add(1);
  }
  CHECK(inserts.full());
  while (!inserts.empty()) REQUIRE(advance(true));
  CHECK_FALSE(inserts.full());
  inserts.add("replay", Bytes(std::size_t{1} << 20), ++sequence);
  CHECK(inserts.full());
  REQUIRE(advance(true));
  CHECK_THROWS_AS(inserts.throw_error(), Error);  // it is no chunk
  CHECK_FALSE(inserts.full());
}
