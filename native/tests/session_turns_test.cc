// Sessions that yield to others that are served alongside.
#include <doctest/doctest.h>

#include <string>

#include "wire/session.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Place = Session::Place;

SessionOptions yielding() {
  SessionOptions options;
  options.yields = true;
  return options;
}

Bytes open_payload() {
  auto payload = numbers(std::uint8_t{0});
  payload += as_bytes(small_table().encode());
  return payload;
}

}  // namespace

TEST_CASE("many small requests are handled over several turns, and none is lost") {
  Server server;
  OpenSession session(server, yielding());
  Bytes requests;
  for (std::uint64_t i = 1; i <= 150; ++i) requests += frame(MessageType::kFetch, "policy", fetch_payload(i), i);
  const auto begun = frame(MessageType::kFetch, "policy", fetch_payload(0), 151);
  requests += std::span(begun).first(30);
  REQUIRE(feed(session, requests) == requests.size());
  std::vector<std::size_t> turns = {replies_in(take_output(session)).size()};
  while (session.yielded()) {
    CHECK_FALSE(session.wants_input());
    CHECK(session.place() == Place::kQuick);
    session.resume(later(0));
    turns.push_back(replies_in(take_output(session)).size());
  }
  CHECK(turns == std::vector<std::size_t>{64, 64, 22});
  CHECK(session.wants_input());
  CHECK(ask(session, std::span(begun).subspan(30)).at(0).header.request == 151);
}

TEST_CASE("the first batch waits for the gathering thread, and all later requests stay there") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  table->try_insert(chunk_of(8));
  OpenSession session(server, yielding());
  auto requests = frame(MessageType::kSignature, "replay", {}, 1);
  requests += frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 0), 2);
  requests += frame(MessageType::kSignature, "replay", {}, 3);
  CHECK(ask(session, requests).size() == 1);
  CHECK(session.yielded());
  CHECK(session.place() == Place::kSampling);
  CHECK_FALSE(session.blocked());
  CHECK(table->stats().samples == 0);
  CHECK(session.resume(later(0)));
  CHECK(replies_in(take_output(session)).size() == 2);
  CHECK_FALSE(session.yielded());
  CHECK(session.place() == Place::kSampling);
  CHECK(ask(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 0))).size() == 1);
}

TEST_CASE("creating or dropping a table moves the session to another thread and back") {
  Server server;
  OpenSession session(server, yielding());
  auto requests = frame(MessageType::kOpenTable, "replay", open_payload(), 1);
  requests += frame(MessageType::kSignature, "replay", {}, 2);
  CHECK(ask(session, requests).empty());
  CHECK(session.yielded());
  CHECK(session.place() == Place::kSlow);
  CHECK(server.table_names().empty());
  session.resume(later(0));
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
  CHECK(session.yielded());
  CHECK(session.place() == Place::kQuick);
  session.resume(later(0));
  CHECK(replies_in(take_output(session)).at(0).header.request == 2);
  CHECK(session.wants_input());

  CHECK(ask(session, frame(MessageType::kDrop, "replay")).empty());
  CHECK(session.place() == Place::kSlow);
  session.resume(later(0));
  CHECK(server.table_names().empty());
}

TEST_CASE("a peer that has not shown the token is not moved to another thread") {
  Server server;
  const Token token(as_bytes("sixteen or more bytes"));
  auto options = yielding();
  options.token = &token;
  OpenSession session(server, options);
  const auto replies = ask(session, frame(MessageType::kDrop, "replay"));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
  CHECK(session.place() == Place::kQuick);
}

TEST_CASE("a blocked request does not keep a dropped table") {
  Server server;
  std::weak_ptr<Table> table = server.add_table("replay", small_table());
  OpenSession session(server);
  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, -1)));
  CHECK(session.blocked_on() == table.lock());
  CHECK_FALSE(session.inserts());
  server.drop("replay");
  CHECK(table.expired());
  CHECK(session.blocked_on() == nullptr);
  CHECK(session.resume(later(0)));
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kClosed));
}
