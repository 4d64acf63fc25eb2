// What connections take of the memory budget, and give back.
#include <doctest/doctest.h>

#include <string>

#include "wire/session.h"
#include "wire/session_work.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

// Requests of an empty blob, whose replies are small, as many as the session takes while its peer reads nothing.
std::size_t ask_without_reading(Session& session) {
  const auto fetch = frame(MessageType::kFetch, "x", fetch_payload(0));
  std::size_t count = 0;
  while (session.wants_input() && count < 1'000'000) {
    if (feed(session, fetch) < fetch.size()) break;
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("small replies that wait for the peer count against the budget, at little more than their size") {
  Server server;
  server.parameters().publish("x", 1, {});
  OpenSession session(server);
  CHECK(ask_without_reading(session) > 50'000);
  const auto used = server.budget().used() - ReceiveBuffer::kFirstBytes;
  std::size_t of_64_buffers = 0;
  for (const auto buffer : session.output()) of_64_buffers += buffer.size();
  CHECK(of_64_buffers > 32 * SendQueue::kPieceBytes);  // not a buffer for each reply
  const auto waiting = take_output(session).size();
  CHECK(used >= waiting);
  CHECK(used < waiting + waiting / 8);
  CHECK(server.budget().used() <= ReceiveBuffer::kFirstBytes + SendQueue::kPieceBytes);
}

TEST_CASE("where the budget is used up, a connection still takes small requests and holds few replies") {
  Server server({.memory_bytes = 1 << 20});
  server.parameters().publish("x", 1, {});
  const auto others = server.budget().try_take(1 << 20);
  OpenSession session(server);
  CHECK(session.prepare().size() == ReceiveBuffer::kUncountedBytes);
  CHECK(ask(session, frame(MessageType::kStats, "")).at(0).header.status == kOk);
  ask_without_reading(session);
  const auto waiting = take_output(session).size();
  CHECK(waiting > kUncountedReplyBytes / 2);
  CHECK(waiting <= kUncountedReplyBytes + 2 * SendQueue::kPieceBytes);
  CHECK(server.budget().used() == server.budget().limit());
  CHECK(ask(session, frame(MessageType::kStats, "")).at(0).header.status == kOk);
}

TEST_CASE("an idle connection keeps no memory, and takes it again") {
  Server server;
  server.add_table("replay", small_table())->try_insert(chunk_of(8));
  const auto table = server.budget().used();
  OpenSession session(server);
  ask(session, frame(MessageType::kPut, "episodes", put_payload(std::string(1'000'000, 'm'))));
  server.mailbox("episodes")->drain();
  ask(session, frame(MessageType::kSample, "replay", sample_payload(8, 0.4, 0)));
  CHECK(server.budget().used() > table + 1'000'000);
  session.expire(later(9'999));
  CHECK(server.budget().used() > table + 1'000'000);
  session.expire(later(10'000));
  CHECK(server.budget().used() == table);
  CHECK(ask(session, frame(MessageType::kSample, "replay", sample_payload(8, 0.4, 0))).at(0).header.status == kOk);
}

TEST_CASE("parts of a blob are kept for frame_wait, and while the next one arrives") {
  Server server;
  const std::string blob(100, 'b');
  const auto part = [&](std::size_t offset) {
    Bytes payload = numbers(std::uint64_t{1}, std::uint64_t{blob.size()}, std::uint64_t{offset});
    payload += as_bytes(blob.substr(offset, 50));
    return frame(MessageType::kPublish, "policy", payload);
  };
  for (const bool arriving : {true, false}) {
    CAPTURE(arriving);
    OpenSession session(server, Limits{.frame_wait = std::chrono::seconds(60)});
    CHECK(ask(session, part(0)).at(0).header.status == kNothing);
    const auto rest = part(50);
    const std::size_t before = arriving ? 30 : 0;
    if (arriving) feed(session, std::span(rest).first(before), later(30'000));
    session.expire(later(61'000));
    feed(session, std::span(rest).subspan(before), later(61'000));
    CHECK((replies_in(take_output(session)).at(0).header.status == kOk) == arriving);
  }
}

TEST_CASE("a connection in the middle of a frame, or of a held request, keeps its bytes") {
  Server server;
  server.add_table("replay", limited_table());
  OpenSession session(server, Limits{.frame_wait = std::chrono::hours(1)});
  const auto request = frame(MessageType::kSample, "replay", sample_payload(8, 0.4, -1));
  feed(session, std::span(request).first(30));
  session.expire(later(20'000));
  feed(session, std::span(request).subspan(30), later(20'000));
  CHECK(session.blocked());
  session.expire(later(60'000));
  server.table("replay")->try_insert(chunk_of(8));
  CHECK(session.resume(later(60'000)));
  CHECK(replies_in(take_output(session)).at(0).header.status == kOk);
}
