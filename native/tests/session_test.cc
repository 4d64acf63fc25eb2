#include "wire/session.h"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

// A header by hand, so that each field can be wrong.
Bytes header_bytes(std::uint16_t magic, std::uint8_t version, std::uint8_t reserved, std::uint64_t length) {
  return numbers(magic, version, std::uint8_t{1}, kOk, reserved, std::uint8_t{0}, std::uint8_t{0}, std::uint64_t{9},
                 length);
}

}  // namespace

TEST_CASE("a header is 24 bytes, as documented") {
  const auto bytes = encode_header({.type = 2, .status = 3, .request = 0x0102, .length = 0x0a0b});
  const std::array<int, 24> expected = {'H', 'R', 6, 2, 3,    0,    0, 0, 2, 1, 0, 0,
                                        0,   0,   0, 0, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 24; ++i) CHECK(std::to_integer<int>(bytes[i]) == expected[i]);
}

TEST_CASE("requests are answered the same however the stream is split") {
  const auto requests = [] {
    Bytes bytes = frame(MessageType::kSignature, "replay", {}, 1);
    bytes += frame(MessageType::kInsert, "replay", insert_payload(chunk_of(3)), 2);
    bytes += frame(MessageType::kFetch, "policy", fetch_payload(0), 3);
    return bytes;
  }();
  const auto answer = [&](std::size_t first, std::size_t step) {
    Server server;
    server.add_table("replay", small_table());
    OpenSession session(server);
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
      {header_bytes(0x1234, kProtocolVersion, 0, 0), ErrorKind::kMalformed, "magic"},
      {header_bytes(kFrameMagic, 2, 0, 0), ErrorKind::kMalformed, "version 2: required 6"},
      {header_bytes(kFrameMagic, kProtocolVersion, 1, 0), ErrorKind::kMalformed, "reserved"},
      {header_bytes(kFrameMagic, kProtocolVersion, 0, limit + 1), ErrorKind::kRefused, "1001"},
  }};
  for (const auto& c : cases) {
    CAPTURE(c.names);
    OpenSession session(server, Limits{.max_frame_bytes = limit});
    const auto replies = ask(session, c.header);
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].header.status == status_of(c.kind));
    CHECK(replies[0].text().find(c.names) != std::string::npos);
    CHECK(session.closing());
    CHECK_FALSE(session.wants_input());
  }
}

TEST_CASE("an announced length allocates no memory: space grows as bytes arrive") {
  Server server;
  OpenSession session(server);
  feed(session, header_bytes(kFrameMagic, kProtocolVersion, 0, 200'000'000));
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
  OpenSession session(server);
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
      {frame(static_cast<MessageType>(24), "replay"), ErrorKind::kInvalid, "type 24"},
      {frame(static_cast<MessageType>(0x81), "replay"), ErrorKind::kInvalid, "type 129"},
      {with_status, ErrorKind::kMalformed, "status"},
      {frame(MessageType::kSignature, "nowhere"), ErrorKind::kNotFound, "nowhere"},
      {frame(MessageType::kSignature, ""), ErrorKind::kRefused, "name"},
      {frame(MessageType::kStats, "replay"), ErrorKind::kRefused, "name"},
      {frame(MessageType::kSignature, "a\nb"), ErrorKind::kRefused, "printable"},
      {frame(MessageType::kSignature, "a\x7f"), ErrorKind::kRefused, "printable"},
      {frame(MessageType::kSignature, std::string(257, 'x')), ErrorKind::kRefused, "257"},
      {name_beyond_body, ErrorKind::kMalformed, "name"},
      {no_name_length, ErrorKind::kMalformed, "name length"},
      {frame(MessageType::kSignature, "replay", numbers(std::uint8_t{1})), ErrorKind::kMalformed, "1 bytes too many"},
      {frame(MessageType::kInsert, "replay", insert_payload(not_a_chunk)), ErrorKind::kChunkRefused, ""},
      {frame(MessageType::kInsert, "replay", insert_payload(std::span(chunk).first(chunk.size() - 8))),
       ErrorKind::kChunkRefused, ""},
      {frame(MessageType::kInsert, "replay", insert_payload({})), ErrorKind::kChunkRefused, ""},
      {frame(MessageType::kInsert, "replay"), ErrorKind::kMalformed, "wait"},
      {frame(MessageType::kSample, "replay", sample_payload(0, 0.4, 0)), ErrorKind::kInvalid, "batch size 0"},
      {frame(MessageType::kSample, "replay", sample_payload(65537, 0.4, 0)), ErrorKind::kInvalid, "65537"},
      {frame(MessageType::kSample, "replay", sample_payload(4, 0.0 / 0.0, 0)), ErrorKind::kInvalid, "exponent"},
      {frame(MessageType::kSample, "replay", numbers(std::uint32_t{4})), ErrorKind::kMalformed, "importance exponent"},
      {frame(MessageType::kUpdatePriorities, "replay", Bytes(13)), ErrorKind::kMalformed, "multiple of 12"},
      {frame(MessageType::kPublish, "policy", Bytes(7)), ErrorKind::kMalformed, "version"},
      {frame(MessageType::kPublish, "policy", Bytes(15)), ErrorKind::kMalformed, "size"},
      {frame(MessageType::kPublish, "policy", Bytes(23)), ErrorKind::kMalformed, "offset"},
      {frame(MessageType::kPublish, "policy", numbers(std::uint64_t{0}, std::uint64_t{9}, std::uint64_t{4})),
       ErrorKind::kInvalid, "offset 4"},
      {frame(MessageType::kPublish, "policy", Bytes(25)), ErrorKind::kInvalid, "1 bytes of a blob of 0"},
      {frame(MessageType::kFetch, "policy", Bytes(17)), ErrorKind::kMalformed, "too many"},
      {frame(MessageType::kFetch, "policy", fetch_payload(0, 1)), ErrorKind::kInvalid, "offset 1"},
      {frame(MessageType::kPut, "episodes", Bytes(15)), ErrorKind::kMalformed, "sequence"},
      {frame(MessageType::kDrain, "episodes", Bytes(8)), ErrorKind::kMalformed, "seen"},
      {frame(MessageType::kHello, "", Bytes(31)), ErrorKind::kMalformed, "nonce"},
      {frame(MessageType::kHello, "replay", Bytes(32)), ErrorKind::kRefused, "name"},
      {frame(MessageType::kAuthenticate, "", Bytes(32)), ErrorKind::kInvalid, "proof"},
      {frame(MessageType::kOpenTable, "other"), ErrorKind::kMalformed, "fresh"},
      {frame(MessageType::kOpenTable, "other", numbers(std::uint8_t{2})), ErrorKind::kMalformed, "fresh 2"},
      {frame(MessageType::kOpenTable, "other", numbers(std::uint8_t{1})), ErrorKind::kCorrupt, ""},
      {frame(MessageType::kSetState, "replay"), ErrorKind::kMalformed, "state"},
      {frame(MessageType::kSetState, "replay", numbers(std::uint8_t{3})), ErrorKind::kInvalid, "state 3"},
      {frame(MessageType::kSetState, "nowhere", numbers(std::uint8_t{1})), ErrorKind::kNotFound, "nowhere"},
      {frame(MessageType::kDrop, ""), ErrorKind::kRefused, "name"},
      {frame(MessageType::kDrop, "replay", Bytes(1)), ErrorKind::kMalformed, "too many"},
      {frame(MessageType::kClaim, "learner", Bytes(7)), ErrorKind::kMalformed, "owner"},
      {frame(MessageType::kShare, "replay", Bytes(7)), ErrorKind::kMalformed, "count"},
      {frame(MessageType::kShare, "replay", numbers(4u, 2u)), ErrorKind::kRefused, "Unix socket"},
      {frame(MessageType::kSampleShared, "replay", Bytes(3)), ErrorKind::kMalformed, "index"},
      {frame(MessageType::kSampleShared, "replay", sample_shared_payload(0, 4, 0.4, 0)), ErrorKind::kRefused,
       "none yet"},
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
  const auto replies = ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kOk);
  CHECK(server.table("replay")->size() == 3);
}

TEST_CASE("a peer that sends requests but does not read cannot fill memory") {
  Server server;
  server.parameters().publish("policy", 1, Bytes(3'000'000));
  OpenSession session(server, Limits{.max_queued_bytes = 4'000'000});
  Bytes requests;
  for (std::uint64_t i = 1; i <= 10; ++i) {
    requests += frame(MessageType::kFetch, "policy", fetch_payload(0), i);
  }
  CHECK(feed(session, requests) == requests.size());  // all fit in the receive buffer
  CHECK_FALSE(session.wants_input());
  CHECK(session.output().size() == 4);  // two heads, two blobs: the second went beyond the limit
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(replies[i].header.request == i + 1);
  CHECK(session.wants_input());
}
