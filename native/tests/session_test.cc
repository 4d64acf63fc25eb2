#include "wire/session.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "wire/batch_sections.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

// A header by hand, so that each field can be wrong.
Bytes header_bytes(std::uint16_t magic, std::uint8_t version, std::uint8_t reserved, std::uint64_t length) {
  return numbers(magic, version, std::uint8_t{1}, kOk, reserved, std::uint8_t{0}, std::uint8_t{0}, std::uint64_t{9},
                 length);
}

void fill_until_blocked(Session& session) {
  const auto insert = frame(MessageType::kInsert, "replay", chunk_of(8));
  for (int i = 0; i < 16 && !session.blocked(); ++i) feed(session, insert);
  REQUIRE(session.blocked());
  take_output(session);
}

void sample_from(Table& table, std::uint32_t size) {
  Bytes block(block_bytes(small_signature(), size));
  REQUIRE(table.try_sample(lay_out(small_signature(), size, block.data()), 0.4));
}

}  // namespace

TEST_CASE("a header is 24 bytes, as documented") {
  const auto bytes = encode_header({.type = 2, .status = 3, .request = 0x0102, .length = 0x0a0b});
  const std::array<int, 24> expected = {'H', 'R', 1, 2, 3,    0,    0, 0, 2, 1, 0, 0,
                                        0,   0,   0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 24; ++i) CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
}

TEST_CASE("requests are answered alike however the stream is cut") {
  const auto requests = [] {
    Bytes bytes = frame(MessageType::kSignature, "replay", {}, 1);
    bytes += frame(MessageType::kInsert, "replay", chunk_of(3), 2);
    bytes += frame(MessageType::kFetch, "policy", numbers(std::uint64_t{0}), 3);
    return bytes;
  }();
  const auto answer = [&](std::size_t first, std::size_t step) {
    Server server;
    server.add_table("replay", small_table());
    Session session(server);
    Bytes output;
    std::span<const std::byte> rest = requests;
    for (std::size_t count = first; !rest.empty(); count = step) {
      const auto part = rest.first(std::min(count, rest.size()));
      CHECK(feed(session, part) == part.size());
      output += take_output(session);
      rest = rest.subspan(part.size());
    }
    return output;
  };
  const auto whole = answer(requests.size(), 1);
  const auto replies = replies_in(whole);
  REQUIRE(replies.size() == 3);
  CHECK(replies[0].text() == small_signature().encode());
  CHECK(replies[0].header.type == (static_cast<std::uint8_t>(MessageType::kSignature) | kReplyBit));
  CHECK(replies[1].header.request == 2);
  CHECK(number_at<std::uint64_t>(replies[1].body) == 0);
  CHECK(replies[2].header.status == kNothing);
  for (std::size_t cut = 1; cut < requests.size(); ++cut) CHECK(answer(cut, requests.size()) == whole);
  CHECK(answer(1, 1) == whole);
  CHECK(answer(7, 7) == whole);
}

TEST_CASE("a malformed header is answered with an error, and closes") {
  Server server;
  struct Case {
    Bytes header;
    ErrorKind kind;
    const char* names;
  };
  const std::uint64_t limit = 1000;
  const std::array<Case, 4> cases = {{
      {header_bytes(0x1234, 1, 0, 0), ErrorKind::kCorrupt, "magic"},
      {header_bytes(kFrameMagic, 9, 0, 0), ErrorKind::kCorrupt, "version 9"},
      {header_bytes(kFrameMagic, 1, 1, 0), ErrorKind::kCorrupt, "reserved"},
      {header_bytes(kFrameMagic, 1, 0, limit + 1), ErrorKind::kRefused, "1001"},
  }};
  for (const auto& c : cases) {
    CAPTURE(c.names);
    Session session(server, {.max_frame_bytes = limit});
    const auto replies = ask(session, c.header);
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].header.status == status_of(c.kind));
    CHECK(replies[0].text().find(c.names) != std::string::npos);
    CHECK(session.closing());
    CHECK_FALSE(session.wants_input());
  }
}

TEST_CASE("an announced length buys no memory: space grows as bytes arrive") {
  Server server;
  Session session(server);
  feed(session, header_bytes(kFrameMagic, 1, 0, 200'000'000));
  CHECK_FALSE(session.closing());
  std::size_t arrived = kFrameHeaderBytes;
  while (arrived < 3'000'000) {
    const auto space = session.prepare();
    REQUIRE(space.size() > 0);
    REQUIRE(space.size() <= std::max<std::size_t>(arrived, ReceiveBuffer::kFirstBytes));
    session.commit(space.size(), later(0));
    arrived += space.size();
  }
}

TEST_CASE("mistakes inside a frame are answered, and the connection stays usable") {
  Server server;
  server.add_table("replay", small_table());
  Session session(server);
  const auto chunk = chunk_of(3);
  auto not_a_chunk = chunk;
  not_a_chunk[0] = std::byte{0};
  Bytes name_beyond_body = frame(MessageType::kSignature, "replay");
  name_beyond_body[kFrameHeaderBytes] = std::byte{200};
  Bytes no_name_length = numbers(kFrameMagic, kProtocolVersion, std::uint8_t{1}, kOk, std::uint8_t{0}, std::uint8_t{0},
                                 std::uint8_t{0}, std::uint64_t{1}, std::uint64_t{1}, std::uint8_t{0});
  Bytes with_status = frame(MessageType::kStats, "");
  with_status[4] = std::byte{1};
  struct Case {
    Bytes request;
    ErrorKind kind;
    const char* names;
  };
  const std::vector<Case> cases = {
      {frame(static_cast<MessageType>(0), "replay"), ErrorKind::kInvalid, "type 0"},
      {frame(static_cast<MessageType>(77), "replay"), ErrorKind::kInvalid, "type 77"},
      {frame(static_cast<MessageType>(0x81), "replay"), ErrorKind::kInvalid, "type 129"},
      {with_status, ErrorKind::kCorrupt, "status"},
      {frame(MessageType::kSignature, "nowhere"), ErrorKind::kNotFound, "nowhere"},
      {frame(MessageType::kSignature, ""), ErrorKind::kRefused, "name"},
      {frame(MessageType::kStats, "replay"), ErrorKind::kRefused, "name"},
      {frame(MessageType::kSignature, "a\nb"), ErrorKind::kRefused, "printable"},
      {frame(MessageType::kSignature, std::string(257, 'x')), ErrorKind::kRefused, "257"},
      {name_beyond_body, ErrorKind::kCorrupt, "name"},
      {no_name_length, ErrorKind::kCorrupt, "name length"},
      {frame(MessageType::kSignature, "replay", numbers(std::uint8_t{1})), ErrorKind::kCorrupt, "1 bytes too many"},
      {frame(MessageType::kInsert, "replay", not_a_chunk), ErrorKind::kRefused, ""},
      {frame(MessageType::kInsert, "replay", std::span(chunk).first(chunk.size() - 8)), ErrorKind::kRefused, ""},
      {frame(MessageType::kInsert, "replay"), ErrorKind::kRefused, ""},
      {frame(MessageType::kSample, "replay", sample_payload(0, 0.4, 0)), ErrorKind::kInvalid, "batch size 0"},
      {frame(MessageType::kSample, "replay", sample_payload(65537, 0.4, 0)), ErrorKind::kInvalid, "65537"},
      {frame(MessageType::kSample, "replay", sample_payload(4, 0.0 / 0.0, 0)), ErrorKind::kInvalid, "exponent"},
      {frame(MessageType::kSample, "replay", numbers(std::uint32_t{4})), ErrorKind::kCorrupt, "importance exponent"},
      {frame(MessageType::kUpdatePriorities, "replay", Bytes(13)), ErrorKind::kCorrupt, "multiple of 12"},
      {frame(MessageType::kPublish, "policy", Bytes(7)), ErrorKind::kCorrupt, "version"},
      {frame(MessageType::kFetch, "policy", Bytes(9)), ErrorKind::kCorrupt, "too many"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.names);
    const auto replies = ask(session, c.request);
    REQUIRE(replies.size() == 1);
    CAPTURE(replies[0].text());
    CHECK(replies[0].header.status == status_of(c.kind));
    CHECK(replies[0].text().find(c.names) != std::string::npos);
    CHECK_FALSE(session.closing());
  }
  const auto replies = ask(session, frame(MessageType::kInsert, "replay", chunk));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kOk);
  CHECK(server.table("replay")->size() == 3);
}

TEST_CASE("a batch too large for a frame is refused before it is drawn") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  Session session(server, {.max_frame_bytes = 1000});
  ask(session, frame(MessageType::kInsert, "replay", chunk_of(3)));
  const auto replies = ask(session, frame(MessageType::kSample, "replay", sample_payload(64, 0.4, 0)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
  CHECK(table->stats().samples == 0);
}

TEST_CASE("a sample's reply holds what the table itself gives to the same seed") {
  Server server;
  server.add_table("replay", small_table());
  Table twin(small_table());
  Session session(server);
  const auto chunk = chunk_of(20);
  ask(session, frame(MessageType::kInsert, "replay", chunk));
  twin.try_insert(chunk);

  constexpr std::uint32_t B = 6;
  Bytes block(block_bytes(small_signature(), B));
  const auto view = lay_out(small_signature(), B, block.data());
  for (int round = 0; round < 3; ++round) {
    const auto replies = ask(session, frame(MessageType::kSample, "replay", sample_payload(B, 0.4, 0)));
    REQUIRE(twin.try_sample(view, 0.4));
    Bytes expected;
    for (const auto section : sections_of(small_signature(), view)) expected += section;
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].body.size() == B * (8 + 8 + 8 + 4 * 4 + 8 + 8));
    CHECK(replies[0].body == expected);
  }
}

TEST_CASE("priorities are updated, and keys that are not stored are not counted") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  Session session(server);
  ask(session, frame(MessageType::kInsert, "replay", chunk_of(2)));
  const auto payload = numbers(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{99}, 4.0f, 9.0f, 1.0f);
  const auto replies = ask(session, frame(MessageType::kUpdatePriorities, "replay", payload));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 2);
  CHECK(table->stats().max_priority == doctest::Approx(9));
}

TEST_CASE("a held insert keeps its place: later requests wait, and go on after it") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  Session session(server);
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
  Session second(server);
  Bytes both = frame(MessageType::kInsert, "replay", chunk_of(8), 5);
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
  Session session(server);
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
  server.table("replay")->try_insert(chunk_of(8));
  CHECK(session.resume(later(1'000'000)));
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kOk);

  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, INT64_MAX)), later(0));
  CHECK(replies_in(take_output(session)).size() == 1);
}

TEST_CASE("a held request is answered with an error when its table closes") {
  Server server;
  server.add_table("replay", limited_table());
  Session session(server);
  fill_until_blocked(session);
  server.close();
  CHECK(session.resume(later(0)));
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kClosed));
}

TEST_CASE("a fetched blob is sent from where it lies") {
  Server server;
  Session session(server);
  Bytes payload = numbers(std::uint64_t{5});
  payload += as_bytes("weights");
  auto replies = ask(session, frame(MessageType::kPublish, "policy", payload));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 5);

  feed(session, frame(MessageType::kFetch, "policy", numbers(std::uint64_t{4})));
  const auto buffers = session.output();
  REQUIRE(buffers.size() == 2);
  CHECK(buffers[1].data() == server.parameters().fetch("policy", 0)->bytes.data());
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 5);
  CHECK(as_text(std::span(replies[0].body).subspan(8)) == "weights");

  replies = ask(session, frame(MessageType::kFetch, "policy", numbers(std::uint64_t{5})));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);
  replies = ask(session, frame(MessageType::kPublish, "policy", payload));  // version 5 again
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
}

TEST_CASE("mailboxes keep messages apart and in order") {
  Server server;
  Session session(server);
  ask(session, frame(MessageType::kPut, "episodes", as_bytes("first")));
  ask(session, frame(MessageType::kPut, "episodes", as_bytes("")));
  ask(session, frame(MessageType::kPut, "timings", as_bytes("other")));
  const auto replies = ask(session, frame(MessageType::kDrain, "episodes"));
  Bytes expected = numbers(std::uint32_t{5});
  expected += as_bytes("first");
  expected += numbers(std::uint32_t{0});
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].body == expected);
  CHECK(ask(session, frame(MessageType::kDrain, "episodes")).at(0).body.empty());
}

TEST_CASE("stats are JSON, with names escaped") {
  Server server;
  server.add_table("re\"play", small_table());
  Session session(server);
  const auto text = ask(session, frame(MessageType::kStats, "")).at(0).text();
  CHECK(text.starts_with("{\"tables\": {\"re\\\"play\": {\"size\": 0, \"capacity\": 256, "));
  CHECK(text.ends_with("}}, \"parameters\": {}}"));
}

TEST_CASE("a peer that asks and does not read fills no memory") {
  Server server;
  server.parameters().publish("policy", 1, Bytes(3'000'000));
  Session session(server, {.max_queued_bytes = 4'000'000});
  Bytes requests;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    requests += frame(MessageType::kFetch, "policy", numbers(std::uint64_t{0}), i);
  }
  CHECK(feed(session, requests) == requests.size());  // all fit in the receive buffer
  CHECK_FALSE(session.wants_input());
  CHECK(session.output().size() == 4);  // two heads, two blobs: the second went beyond the limit
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(replies[i].header.request == i + 1);
  CHECK(session.wants_input());
}
