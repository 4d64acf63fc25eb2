#include "io/scheduler.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "wire/batch_sections.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Id = Scheduler::Id;

// A driver without input and output: it takes what sessions say, and records which went on.
struct Driver {
  explicit Driver(Server& server, std::size_t max_unproven = 2) : server(server), scheduler(max_unproven, {}) {}

  Session& connect(Id id, SessionOptions options = {}, std::int64_t at = 0) {
    options.yields = true;
    auto session = std::make_unique<Session>(server, std::move(options), later(at));
    const auto oldest = scheduler.add(id, *session, later(at));
    sessions[id] = std::move(session);
    if (oldest) close(*oldest);
    return *sessions.at(id);
  }
  void close(Id id) {
    scheduler.remove(id);
    sessions.erase(id);
  }
  void receive(Id id, std::span<const std::byte> bytes, std::int64_t at = 0) {
    feed(*sessions.at(id), bytes, later(at));
    send(id, at);
  }
  void send(Id id, std::int64_t at) {
    said[id] += take_output(*sessions.at(id), later(at));
    if (sessions.at(id)->closing()) return close(id);
    scheduler.note(id);
  }
  std::vector<Id> turn(std::int64_t at) {
    std::vector<Id> served;
    scheduler.turn(later(at), [&](Id id, Scheduler::Action action) {
      served.push_back(id);
      action(*sessions.at(id), later(at));
      send(id, at);
    });
    return served;
  }
  std::vector<Reply> replies(Id id) { return replies_in(std::exchange(said[id], {})); }

  Server& server;
  std::map<Id, std::unique_ptr<Session>> sessions;
  Scheduler scheduler;
  std::map<Id, Bytes> said;
};

using Ids = std::vector<Id>;

Bytes insert_request(std::int64_t wait_milliseconds = -1) {
  return frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), wait_milliseconds));
}

}  // namespace

TEST_CASE("scheduler: held inserts go on in order once their table allows them, and each at its deadline") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  while (table->try_insert(chunk_of(8))) continue;
  Driver driver(server);
  for (const Id id : {2, 4, 6}) driver.connect(id);
  driver.receive(2, insert_request());
  driver.receive(4, insert_request(500));
  driver.receive(6, insert_request());
  CHECK(driver.scheduler.ready());
  CHECK(driver.turn(0) == Ids{2});
  CHECK_FALSE(driver.scheduler.ready());
  CHECK(driver.scheduler.next_deadline() == later(500));
  CHECK(driver.turn(499).empty());
  CHECK(driver.turn(500) == Ids{4});
  CHECK(driver.replies(4).at(0).header.status == kNothing);

  Bytes block(block_bytes(small_signature(), 16));
  CHECK(table->try_sample(lay_out(small_signature(), 16, block.data()), 0.4));
  CHECK(driver.scheduler.ready());
  CHECK(driver.turn(600) == Ids{2, 6});
  CHECK(driver.replies(2).at(0).header.status == kOk);
  CHECK(driver.replies(6).at(0).header.status == kOk);
}

TEST_CASE("scheduler: sessions with much to do take turns") {
  Server server;
  Driver driver(server);
  Bytes requests;
  for (std::uint64_t i = 1; i <= 150; ++i) requests += frame(MessageType::kFetch, "policy", fetch_payload(0), i);
  for (const Id id : {2, 4}) {
    driver.connect(id);
    driver.receive(id, requests);
  }
  CHECK(driver.scheduler.ready());
  CHECK(driver.turn(0) == Ids{2, 4});
  CHECK(driver.turn(0) == Ids{2, 4});
  CHECK_FALSE(driver.scheduler.ready());
  CHECK(driver.turn(0).empty());
  for (const Id id : {2, 4}) CHECK(driver.replies(id).size() == 150);
}

TEST_CASE("scheduler: of the sessions that have not shown the token, the oldest is closed") {
  Server server;
  const Token token(as_bytes("a secret of 16 bytes or more"));
  const auto with_token = [&token] {
    SessionOptions options;
    options.token = &token;
    return options;
  };
  Driver driver(server);
  driver.connect(2);  // which needs none
  driver.connect(4, with_token());
  driver.connect(6, with_token());
  driver.connect(8, with_token());
  CHECK_FALSE(driver.sessions.contains(4));
  driver.connect(10, with_token());
  CHECK_FALSE(driver.sessions.contains(6));
  CHECK(driver.sessions.size() == 3);
}

TEST_CASE("scheduler: once a second, slow peers are closed, but not for time in which nothing was served") {
  Server server;
  Driver driver(server);
  const auto request = frame(MessageType::kStats, "");
  for (const Id id : {2, 4}) driver.connect(id);
  driver.receive(2, std::span(request).first(10));
  CHECK(driver.scheduler.next_deadline() == later(1'000));
  CHECK(driver.turn(999).empty());
  CHECK(driver.turn(1'000).size() == 2);
  CHECK(driver.turn(500'000).empty());  // 498 s late
  for (std::int64_t at = 501'000; at < 556'000; at += 1'000) driver.turn(at);
  CHECK(driver.sessions.contains(2));
  CHECK_FALSE(driver.sessions.contains(4));  // without a request in 10 s
  for (std::int64_t at = 556'000; at < 560'000; at += 1'000) driver.turn(at);
  CHECK_FALSE(driver.sessions.contains(2));  // 60 s without the rest of its frame
  CHECK(driver.replies(2).at(0).text().starts_with("frame: too little"));
  driver.turn(561'000);
  CHECK(driver.scheduler.next_deadline() == never());
}

TEST_CASE("scheduler: a driver may wait until the peer has acknowledged what it was sent") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  table->try_insert(chunk_of(8));
  Driver driver(server);
  auto& session = driver.connect(2);
  auto requests = frame(MessageType::kSample, "replay", sample_payload(4, 0.4, -1), 1);
  requests += frame(MessageType::kSample, "replay", sample_payload(4, 0.4, -1), 2);
  feed(session, requests);
  driver.scheduler.note(2);
  driver.scheduler.turn(later(0), [&](Id id, Scheduler::Action action) {
    action(session, later(0));
    driver.scheduler.note(id);  // its output is on its way
  });
  CHECK(table->stats().samples == 4);
  CHECK_FALSE(driver.scheduler.ready());
  driver.send(2, 0);  // all is acknowledged
  CHECK(driver.replies(2).size() == 2);
  CHECK(table->stats().samples == 8);
}
