#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>

#include "wire/batch_sections.h"
#include "wire/session.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

void fill_until_blocked(Session& session) {
  const auto insert = frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8)));
  for (int i = 0; i < 16 && !session.blocked(); ++i) feed(session, insert);
  REQUIRE(session.blocked());
  take_output(session);
}

void sample_from(Table& table, std::uint32_t size) {
  Bytes block(block_bytes(small_signature(), size));
  REQUIRE(table.try_sample(lay_out(small_signature(), size, block.data()), 0.4));
}

Bytes batch_in(const BatchView& view) {
  Bytes bytes;
  for (const auto section : sections_of(small_signature(), view)) bytes += section;
  return bytes;
}

}  // namespace

TEST_CASE("a batch too large for a frame is refused before it is drawn") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  OpenSession session(server, Limits{.max_frame_bytes = 1000});
  ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(3))));
  const auto replies = ask(session, frame(MessageType::kSample, "replay", sample_payload(64, 0.4, 0)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
  CHECK(table->stats().samples == 0);
}

TEST_CASE("a sample's reply holds what the table itself gives to the same seed") {
  Server server;
  server.add_table("replay", small_table());
  Table twin(small_table());
  OpenSession session(server);
  const auto chunk = chunk_of(20);
  ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk)));
  twin.try_insert(chunk);

  constexpr std::uint32_t B = 6;
  Bytes block(block_bytes(small_signature(), B));
  const auto view = lay_out(small_signature(), B, block.data());
  for (int round = 0; round < 3; ++round) {
    const auto replies = ask(session, frame(MessageType::kSample, "replay", sample_payload(B, 0.4, 0)));
    REQUIRE(twin.try_sample(view, 0.4));
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].body.size() == B * (8 + 8 + 8 + 4 * 4 + 8 + 8));
    CHECK(replies[0].body == batch_in(view));
  }
}

TEST_CASE("what a peer inserts gets into no later table of the same name") {
  Server server;
  server.add_table("replay", limited_table());
  OpenSession full(server), actor(server), learner(server), other(server);
  fill_until_blocked(full);
  const auto insert = frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8)));
  auto three = insert;
  three += insert;
  three += insert;
  REQUIRE(feed(actor, three) == three.size());
  REQUIRE(actor.blocked());  // at the first

  auto open = numbers(std::uint8_t{1});
  open += as_bytes(limited_table().encode());
  REQUIRE(ask(learner, frame(MessageType::kOpenTable, "replay", open)).at(0).header.status == kOk);
  CHECK(actor.resume(later(0)));
  const auto replies = replies_in(take_output(actor));
  REQUIRE(replies.size() == 3);
  for (const auto& reply : replies) CHECK(reply.header.status == status_of(ErrorKind::kClosed));
  CHECK(server.table("replay")->size() == 0);

  CHECK(ask(learner, insert).at(0).header.status == kOk);  // the peer that opened it means this one
  CHECK(ask(other, insert).at(0).header.status == kOk);
  CHECK(server.table("replay")->size() == 16);
}

TEST_CASE("a blocked insert keeps its place: later requests wait and continue after it") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  OpenSession session(server);
  fill_until_blocked(session);
  const auto size = table->size();
  CHECK(session.blocked_on() == table);
  CHECK(session.deadline() == never());
  CHECK_FALSE(session.wants_input());
  CHECK_FALSE(session.resume(later(0)));

  sample_from(*table, 16);
  CHECK(session.resume(later(0)));
  CHECK(table->size() == size + 8);
  CHECK(replies_in(take_output(session)).size() == 1);

  fill_until_blocked(session);
  OpenSession second(server);
  Bytes both = frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8)), 5);
  both += frame(MessageType::kStats, "", {}, 6);
  CHECK(feed(second, both) == both.size());
  CHECK(second.blocked());
  CHECK(take_output(second).empty());
  sample_from(*table, 16);
  CHECK(second.resume(later(0)));
  const auto replies = replies_in(take_output(second));
  REQUIRE(replies.size() == 2);
  CHECK(replies[0].header.request == 5);
  CHECK(replies[1].header.request == 6);
}

TEST_CASE("a sample waits to its deadline, and no longer") {
  Server server;
  server.add_table("replay", small_table());
  OpenSession session(server);
  auto replies = ask(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 0)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);
  CHECK(replies[0].body.empty());

  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, 50)), later(1000));
  CHECK(session.deadline() == later(1050));
  CHECK_FALSE(session.resume(later(1049)));
  CHECK(session.resume(later(1050)));
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);

  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, -1)));
  CHECK(session.deadline() == never());
  CHECK_FALSE(session.resume(later(1'000'000)));
  OpenSession patient(server);
  constexpr auto kLongest = std::numeric_limits<std::int64_t>::max();
  feed(patient, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, kLongest)));
  CHECK(patient.blocked());
  CHECK(patient.deadline() > later(86'400'000));
  server.table("replay")->try_insert(chunk_of(8));
  CHECK(session.resume(later(1'000'000)));
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kOk);

  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, INT64_MAX)), later(0));
  CHECK(replies_in(take_output(session)).size() == 1);
}

TEST_CASE("an insert waits to its deadline, and is then not stored") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  OpenSession session(server);
  fill_until_blocked(session);
  sample_from(*table, 16);
  REQUIRE(session.resume(later(0)));
  take_output(session);
  while (table->try_insert(chunk_of(1))) {
  }
  const auto size = table->size();

  auto replies = ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), 0)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);
  CHECK(replies[0].body.empty());

  feed(session, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), 50)), later(1000));
  CHECK(session.deadline() == later(1050));
  CHECK_FALSE(session.resume(later(1049)));
  CHECK(session.resume(later(1050)));
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);
  CHECK(table->size() == size);
}

TEST_CASE("a chunk that is sent again is stored once, over any connection") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  OpenSession first(server);
  OpenSession second(server);
  const auto insert = [](std::uint64_t sequence) {
    return frame(MessageType::kInsert, "replay", insert_payload(chunk_of(3, 99, sequence)));
  };
  const auto key = [](const std::vector<Reply>& replies) { return number_at<std::uint64_t>(replies.at(0).body); };
  CHECK(key(ask(first, insert(1))) == 0);
  CHECK(key(ask(first, insert(2))) == 3);
  CHECK(key(ask(second, insert(2))) == 3);
  CHECK(table->size() == 6);
  CHECK(key(ask(second, insert(3))) == 6);
  CHECK(table->size() == 9);
}

TEST_CASE("chunks of one request are stored in order; sent again after a deadline, each is stored once") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  OpenSession session(server);
  Bytes chunks;
  for (std::uint64_t sequence = 1; sequence <= 8; ++sequence) chunks += chunk_of(8, 99, sequence);
  const auto insert = frame(MessageType::kInsert, "replay", insert_payload(chunks, 50));

  feed(session, insert, later(1000));
  REQUIRE(session.blocked());
  const auto stored = table->size();
  CHECK(stored > 0);
  CHECK(stored < 64);
  CHECK(session.resume(later(1050)));
  auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);

  feed(session, insert, later(2000));
  CHECK(table->size() == stored);
  while (session.blocked()) {
    sample_from(*table, 16);
    session.resume(later(2000));
  }
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 56);
  CHECK(table->size() == 64);
}

TEST_CASE("if one chunk of a request is refused, those before it are stored") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  OpenSession session(server);
  Bytes broken = chunk_of(3);
  broken[0] ^= std::byte{1};
  Bytes chunks = chunk_of(2);
  chunks += broken;
  chunks += chunk_of(4);
  const auto replies = ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunks)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kChunkRefused));
  CHECK(table->size() == 2);
}

TEST_CASE("a held request is answered with an error when its table closes") {
  Server server;
  server.add_table("replay", limited_table());
  OpenSession session(server);
  fill_until_blocked(session);
  server.close();
  CHECK(session.resume(later(0)));
  CHECK_FALSE(server.meters().at(0)->blocked.load());
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kClosed));
}

TEST_CASE("a batch is gathered after the previous one was sent") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  table->try_insert(chunk_of(20));
  OpenSession session(server, Limits{.max_queued_bytes = 64});
  Bytes requests;
  for (std::uint64_t i = 1; i <= 5; ++i) {
    requests += frame(MessageType::kSample, "replay", sample_payload(8, 0.4, -1), i);
  }
  CHECK(feed(session, requests) == requests.size());
  CHECK(table->stats().samples == 8);
  CHECK_FALSE(session.wants_input());
  constexpr std::size_t kReplyBytes = kFrameHeaderBytes + 8 * 56;
  session.consumed(kReplyBytes - 1, later(0));
  CHECK(table->stats().samples == 8);
  session.consumed(1, later(0));
  CHECK(table->stats().samples == 16);
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(replies[i].header.request == i + 2);
  CHECK(table->stats().samples == 40);
  CHECK(session.wants_input());
}

TEST_CASE("batches always use the same memory block") {
  Server server;
  server.add_table("replay", small_table())->try_insert(chunk_of(20));
  OpenSession session(server);
  const auto request = frame(MessageType::kSample, "replay", sample_payload(8, 0.4, -1));
  ask(session, request);
  const auto used = server.budget().used();
  std::vector<const std::byte*> blocks;
  for (int round = 0; round < 3; ++round) {
    feed(session, request);
    const auto buffers = session.output();
    REQUIRE(buffers.size() == 10);
    blocks.push_back(buffers[1].data());
    take_output(session);
  }
  CHECK(blocks[1] == blocks[0]);
  CHECK(blocks[2] == blocks[0]);
  CHECK(server.budget().used() == used);
  Bytes many;
  for (int i = 0; i < 20; ++i) many += request;
  CHECK(ask(session, many).size() == 20);
  CHECK(server.budget().used() == used);
}
