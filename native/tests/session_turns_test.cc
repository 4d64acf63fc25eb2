// Sessions that yield to others that are served alongside.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "wire/batch_sections.h"
#include "wire/session.h"
#include "wire/session_work.h"
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

// The turns that the work in hand takes from now on.
int turns_of(Session& session) {
  int turns = 1;
  for (; session.yielded(); ++turns) {
    CHECK_FALSE(session.wants_input());
    CHECK_FALSE(session.blocked());
    session.resume(later(0));
  }
  return turns;
}

Bytes open_payload() {
  auto payload = numbers(std::uint8_t{0});
  payload += as_bytes(small_table().encode());
  return payload;
}

// A table of 10,000 transitions.
std::shared_ptr<Table> add_many(Server& server) {
  auto options = small_table();
  options.capacity = 20'000;
  const auto table = server.add_table("replay", options);
  table->try_insert(chunk_of(10'000));
  return table;
}

// Sets the priorities of all of these, to 2 but for the last one.
Bytes update_many(float last) {
  Bytes payload;
  for (std::uint64_t key = 0; key < 10'000; ++key) append_number(payload, key);
  for (int i = 0; i < 10'000; ++i) append_number(payload, i == 9'999 ? last : 2.0f);
  return frame(MessageType::kUpdatePriorities, "replay", payload);
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

TEST_CASE("a claim, which a file may keep, moves the session too") {
  Server server;
  OpenSession session(server, yielding());
  const auto terms = numbers(std::uint64_t{1}, std::uint64_t{2}, std::int64_t{1000});
  CHECK(ask(session, frame(MessageType::kClaim, "learner", terms)).empty());
  CHECK(session.place() == Place::kSlow);
  session.resume(later(0));
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
  CHECK(session.place() == Place::kQuick);
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

TEST_CASE("many priorities are applied over several turns") {
  Server server;
  const auto table = add_many(server);
  OpenSession session(server, yielding());
  feed(session, update_many(2.0f));
  CHECK(session.yielded());
  CHECK(table->stats().updates == kUnitsPerTurn * kUpdatesPerUnit);
  CHECK(session.output().empty());
  CHECK(turns_of(session) == 3);
  CHECK(number_at<std::uint64_t>(replies_in(take_output(session)).at(0).body) == 10'000);
  CHECK(table->stats().updates == 10'000);
}

TEST_CASE("if one of many priorities is invalid, none is applied") {
  Server server;
  const auto table = add_many(server);
  OpenSession session(server, yielding());
  const auto reply = ask(session, update_many(-1.0f)).at(0);
  CHECK(reply.header.status == status_of(ErrorKind::kInvalid));
  CHECK(reply.text().starts_with("priorities[9999]"));
  CHECK(table->stats().updates == 0);
}

TEST_CASE("many chunks of one request are stored over several turns") {
  Server server;
  auto options = small_table();
  options.capacity = 4'000;
  const auto table = server.add_table("replay", options);
  OpenSession session(server, yielding());
  const auto chunk = chunk_of(1);
  auto payload = insert_payload(chunk);
  for (int i = 1; i < 2'500; ++i) payload += chunk;
  const auto request = frame(MessageType::kInsert, "replay", payload);
  feed(session, request);
  CHECK(session.yielded());
  CHECK(table->size() == kUnitsPerTurn * kChunksPerUnit);
  CHECK(turns_of(session) == 10);
  CHECK(number_at<std::uint64_t>(replies_in(take_output(session)).at(0).body) == 2'499);
}

TEST_CASE("a large batch is gathered over several turns, and is the batch that was drawn") {
  auto options = small_table();
  options.signature = {{"uint8", {1 << 20}}, {"int64", {}}, 1};
  options.capacity = 8;
  options.capacity_bytes = 32 << 20;
  Server server;
  const auto table = server.add_table("replay", options);
  Table twin(options);
  ChunkWriter writer({.signature = options.signature, .n_step = 1, .discount = 0.9, .chunk_steps = 8, .actor = 7});
  std::vector<std::uint8_t> observation(1 << 20);
  writer.start(observation.data());
  for (std::int64_t step = 0; step < 8; ++step) {
    observation.assign(observation.size(), static_cast<std::uint8_t>(step + 1));
    writer.append(&step, 0.5f, observation.data(), step == 7, false);
  }
  const auto chunk = writer.take().at(0);
  for (auto* one : {table.get(), &twin}) REQUIRE(one->try_insert(chunk));

  constexpr std::uint32_t B = 8;
  Bytes block(block_bytes(options.signature, B));
  const auto expected = lay_out(options.signature, B, block.data());
  REQUIRE(twin.try_sample(expected, 0.4));
  std::shared_ptr<SharedRegion> region;
  auto sharing = with_region(region);
  sharing.yields = true;
  OpenSession session(server, std::move(sharing));
  ask(session, frame(MessageType::kShare, "replay", numbers(B, 1u)));
  session.resume(later(0));  // on the gathering thread
  take_output(session);
  feed(session, frame(MessageType::kSampleShared, "replay", sample_shared_payload(0, B, 0.4, 0)));
  CHECK(session.yielded());
  CHECK(turns_of(session) == 4);  // of 16 MiB
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
  const auto gathered = lay_out(options.signature, B, region->bytes().data());
  const auto sections = sections_of(options.signature, gathered), wanted = sections_of(options.signature, expected);
  for (std::size_t i = 0; i < sections.size(); ++i) CHECK(std::ranges::equal(sections[i], wanted[i]));
}

TEST_CASE("many transitions are drawn and gathered over several turns") {
  Server server;
  const auto table = add_many(server);
  OpenSession session(server, yielding());
  feed(session, frame(MessageType::kSample, "replay", sample_payload(10'000, 0.4, 0)));
  session.resume(later(0));  // on the gathering thread
  CHECK(session.yielded());
  CHECK(table->stats().samples == 10'000);
  CHECK(turns_of(session) == 6);  // of 4,096 transitions: two draws after the first, then three gathers
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
}

TEST_CASE("a batch that is being gathered survives the drop of its table") {
  auto options = small_table();
  options.signature = {{"uint8", {1 << 20}}, {"int64", {}}, 1};
  options.capacity = 8;
  options.capacity_bytes = 32 << 20;
  Server server;
  ChunkWriter writer({.signature = options.signature, .n_step = 1, .discount = 0.9, .chunk_steps = 8, .actor = 7});
  std::vector<std::uint8_t> observation(1 << 20);
  writer.start(observation.data());
  for (std::int64_t step = 0; step < 8; ++step) writer.append(&step, 0.5f, observation.data(), step == 7, false);
  server.add_table("replay", options)->try_insert(writer.take().at(0));
  OpenSession session(server, yielding());
  feed(session, frame(MessageType::kSample, "replay", sample_payload(8, 0.4, 0)));
  session.resume(later(0));
  CHECK(session.yielded());
  server.drop("replay");
  turns_of(session);
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
}

TEST_CASE("a huge chunk is inserted on another thread") {
  Server server;
  auto options = small_table();
  options.signature = {{"uint8", {1 << 20}}, {"int64", {}}, 1};
  options.capacity = 16;
  options.capacity_bytes = 64 << 20;
  server.add_table("replay", options);
  ChunkWriter writer({.signature = options.signature, .n_step = 1, .discount = 0.9, .chunk_steps = 12, .actor = 7});
  std::vector<std::uint8_t> observation(1 << 20);
  writer.start(observation.data());
  for (std::int64_t step = 0; step < 12; ++step) writer.append(&step, 0.5f, observation.data(), step == 11, false);
  OpenSession session(server, yielding());
  feed(session, frame(MessageType::kInsert, "replay", insert_payload(writer.take().at(0))));
  CHECK(session.yielded());
  CHECK(session.place() == Place::kSlow);
  CHECK(server.table("replay")->size() == 0);
  session.resume(later(0));
  CHECK(session.yielded());
  CHECK(session.place() == Place::kQuick);
  session.resume(later(0));
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
  CHECK(session.wants_input());
}

TEST_CASE("a session yields after so much work, however its requests arrive") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  table->try_insert(chunk_of(8));
  OpenSession session(server, yielding());
  Bytes payload;
  for (int i = 0; i < 1000; ++i) append_number(payload, std::uint64_t{3});
  for (int i = 0; i < 1000; ++i) append_number(payload, 2.0f);
  const auto request = frame(MessageType::kUpdatePriorities, "replay", payload);
  int handled = 0;
  for (; !session.yielded() && handled < 100; ++handled) feed(session, request);
  CHECK(handled == 5);  // the fifth waits: the others were 4,000 priorities
  CHECK(table->stats().updates == 4'000);
}
