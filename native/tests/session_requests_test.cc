#include <doctest/doctest.h>

#include <array>
#include <string>

#include "wire/session.h"
#include "wire/session_work.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("priorities are updated, and keys that are not stored are not counted") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  OpenSession session(server);
  ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(2))));
  const auto payload = numbers(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{99}, 4.0f, 9.0f, 1.0f);
  const auto replies = ask(session, frame(MessageType::kUpdatePriorities, "replay", payload));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 2);
  CHECK(table->stats().max_priority == doctest::Approx(9));
}

TEST_CASE("more priorities than a batch may have are refused, and none is applied") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  OpenSession session(server, Limits{.max_batch = 2});
  ask(session, frame(MessageType::kInsert, "replay", insert_payload(chunk_of(2))));
  const auto payload = numbers(std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{0}, 4.0f, 9.0f, 1.0f);
  const auto reply = ask(session, frame(MessageType::kUpdatePriorities, "replay", payload)).at(0);
  CHECK(reply.header.status == status_of(ErrorKind::kRefused));
  CHECK(reply.text() == "priorities of 3 transitions: at most 2; none is applied");
  CHECK(table->stats().updates == 0);
}

TEST_CASE("a fetched blob is sent without a copy") {
  Server server;
  OpenSession session(server);
  const std::string weights(kCopiedBytes, 'w');
  const auto payload = publish_payload(5, as_bytes(weights));
  auto replies = ask(session, frame(MessageType::kPublish, "policy", payload));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 5);

  feed(session, frame(MessageType::kFetch, "policy", fetch_payload(4)));
  const auto buffers = session.output();
  REQUIRE(buffers.size() == 2);
  CHECK(buffers[1].data() == server.parameters().fetch("policy", 0)->bytes.data());
  replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 5);
  CHECK(number_at<std::uint64_t>(replies[0].body, 8) == weights.size());
  CHECK(as_text(std::span(replies[0].body).subspan(16)) == weights);

  replies = ask(session, frame(MessageType::kFetch, "policy", fetch_payload(5)));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == kNothing);
  replies = ask(session, frame(MessageType::kPublish, "policy", payload));  // once more: its answer was lost
  REQUIRE(replies.size() == 1);
  CHECK(number_at<std::uint64_t>(replies[0].body) == 5);
  const auto other = publish_payload(5, as_bytes(weights + "!"));
  replies = ask(session, frame(MessageType::kPublish, "policy", other));  // version 5 with other bytes
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
}

TEST_CASE("a blob is published in parts, as a whole with the last one") {
  Server server({.memory_bytes = 1 << 20});
  OpenSession session(server, Limits{.max_part_bytes = 4});
  const auto part = [&session](std::uint64_t version, std::uint64_t size, std::uint64_t offset,
                               std::string_view bytes) {
    auto payload = numbers(version, size, offset);
    payload += as_bytes(bytes);
    return ask(session, frame(MessageType::kPublish, "policy", payload)).at(0);
  };
  CHECK(part(3, 9, 0, "abcd").header.status == kNothing);
  CHECK(part(3, 9, 4, "efgh").header.status == kNothing);
  CHECK(server.parameters().fetch("policy") == nullptr);
  CHECK(number_at<std::uint64_t>(part(3, 9, 8, "i").body) == 3);
  const auto blob = server.parameters().fetch("policy");
  CHECK(as_text(blob->bytes) == "abcdefghi");

  for (const char* last : {"i", "j"}) {  // once more, and then the same version with other bytes
    CHECK(part(3, 9, 0, "abcd").header.status == kNothing);
    CHECK(part(3, 9, 4, "efgh").header.status == kNothing);
    CHECK(part(3, 9, 8, last).header.status == (last[0] == 'i' ? kOk : status_of(ErrorKind::kRefused)));
  }
  CHECK(server.parameters().fetch("policy") == blob);
  CHECK(part(3, 8, 0, "abcd").header.status == status_of(ErrorKind::kRefused));  // at its first part
  CHECK(part(2, 9, 0, "abcd").header.status == status_of(ErrorKind::kRefused));
  CHECK(part(4, 2 << 20, 0, "abcd").header.status == status_of(ErrorKind::kRefused));  // beyond the budget
  CHECK(part(4, 9, 0, "abcde").header.status == status_of(ErrorKind::kRefused));
  CHECK(part(4, 9, 4, "efgh").header.status == status_of(ErrorKind::kInvalid));
  CHECK(part(4, 9, 0, "abcd").header.status == kNothing);
  CHECK(part(5, 9, 4, "efgh").header.status == status_of(ErrorKind::kInvalid));
  CHECK(part(4, 9, 4, "efgh").header.status == status_of(ErrorKind::kInvalid));  // that one has ended
  CHECK(part(4, 9, 0, "abcd").header.status == kNothing);
  CHECK(part(4, 8, 4, "efgh").header.status == status_of(ErrorKind::kInvalid));  // of another size
}

TEST_CASE("parts of a blob that do not go on are forgotten") {
  Server server;
  OpenSession session(server, Limits{.max_part_bytes = 4});
  auto payload = numbers(std::uint64_t{1}, std::uint64_t{1'000'000}, std::uint64_t{0});
  payload += as_bytes("abcd");
  CHECK(ask(session, frame(MessageType::kPublish, "policy", payload)).at(0).header.status == kNothing);
  session.expire(later(59'999));
  CHECK(server.budget().used() == 1'000'000);
  session.expire(later(60'000));
  CHECK(server.budget().used() == 0);
}

TEST_CASE("all parts of a fetch are of one version") {
  Server server;
  OpenSession session(server, Limits{.max_part_bytes = 4});
  server.parameters().publish("policy", 1, as_bytes("abcdefghi"));
  server.parameters().publish("other", 1, as_bytes("abcdefghi"));
  const auto part = [&session](std::uint64_t newer_than, std::uint64_t offset, std::string_view name = "policy") {
    return ask(session, frame(MessageType::kFetch, name, fetch_payload(newer_than, offset))).at(0);
  };
  const auto expected = [](std::uint64_t version, std::uint64_t size, std::string_view bytes) {
    auto body = numbers(version, size);
    body += as_bytes(bytes);
    return body;
  };
  CHECK(part(0, 0).body == expected(1, 9, "abcd"));
  server.parameters().publish("policy", 2, as_bytes("xyz"));
  CHECK(part(0, 4).body == expected(1, 9, "efgh"));
  CHECK(part(0, 8).body == expected(1, 9, "i"));
  CHECK(part(0, 4).header.status == status_of(ErrorKind::kInvalid));  // it has come to its end
  CHECK(part(1, 0).body == expected(2, 3, "xyz"));
  CHECK(part(2, 0).header.status == kNothing);
  for (const auto& next : {std::pair("policy", 4), std::pair("other", 9)}) {  // of another blob, or beyond its end
    CHECK(part(0, 0, "other").body == expected(1, 9, "abcd"));
    CHECK(part(0, next.second, next.first).header.status == status_of(ErrorKind::kInvalid));
  }
}

TEST_CASE("a dropped blob that was fetched in part is released if the fetch does not go on") {
  Server server;
  OpenSession session(server, Limits{.max_part_bytes = 4});
  server.parameters().publish("policy", 1, Bytes(1'000'000));
  ask(session, frame(MessageType::kFetch, "policy", fetch_payload(0)));
  server.drop("policy");
  session.expire(later(59'999));
  CHECK(server.budget().used() == 1'000'000);
  session.expire(later(60'000));
  CHECK(server.budget().used() == 0);
}

TEST_CASE("mailboxes keep messages separate, in order, and until they are acknowledged") {
  Server server;
  OpenSession session(server);
  ask(session, frame(MessageType::kPut, "episodes", put_payload("first", 9, 1)));
  ask(session, frame(MessageType::kPut, "episodes", put_payload("first", 9, 1)));  // once more
  ask(session, frame(MessageType::kPut, "episodes", put_payload("", 9, 2)));
  ask(session, frame(MessageType::kPut, "timings", put_payload("other")));
  const auto drain = [&session](std::uint64_t epoch, std::uint64_t seen) {
    return ask(session, frame(MessageType::kDrain, "episodes", numbers(epoch, seen))).at(0).body;
  };
  const auto body = drain(0, 0);
  REQUIRE(body.size() > 16);
  const auto epoch = number_at<std::uint64_t>(body);
  Bytes expected = numbers(epoch, std::uint64_t{2}, std::uint32_t{5});
  expected += as_bytes("first");
  expected += numbers(std::uint32_t{0});
  CHECK(body == expected);
  CHECK(drain(epoch + 1, 2) == expected);  // of another mailbox, whose numbers mean nothing here
  CHECK(drain(epoch, 0) == expected);
  CHECK(drain(epoch, 1) == numbers(epoch, std::uint64_t{2}, std::uint32_t{0}));
  CHECK(drain(epoch, 2) == numbers(epoch, std::uint64_t{2}));
}

TEST_CASE("a mailbox is created by a put, not by a drain") {
  Server server;
  OpenSession session(server);
  const auto reply = ask(session, frame(MessageType::kDrain, "episodes", numbers(std::uint64_t{3}, std::uint64_t{4})));
  CHECK(reply.at(0).body == numbers(std::uint64_t{0}, std::uint64_t{0}));
  CHECK(server.find_mailbox("episodes") == nullptr);
}

TEST_CASE("a drain answers with 4 MiB at most, which the budget pays for until they are sent") {
  constexpr std::size_t kMessages = 20, kBytes = 1 << 20;
  Server server({.memory_bytes = 64 << 20});
  const std::string text(kBytes, 'm');
  for (std::size_t i = 0; i < kMessages; ++i) server.mailbox("episodes")->put(as_bytes(text));
  OpenSession session(server);
  ask(session, frame(MessageType::kStats, ""));
  const std::uint64_t stored = server.budget().used();
  const auto request = frame(MessageType::kDrain, "episodes", numbers(std::uint64_t{0}, std::uint64_t{0}));
  feed(session, request);
  const std::uint64_t reply_bytes = 16 + 4 * (4 + kBytes);
  CHECK(server.budget().used() == stored + SendQueue::kPieceBytes + reply_bytes);
  const auto reply = replies_in(take_output(session)).at(0);
  CHECK(reply.body.size() == reply_bytes);
  CHECK(number_at<std::uint64_t>(reply.body, 8) == 4);
  CHECK(server.budget().used() == stored);
}

TEST_CASE("if memory is short, messages are still sent, a few at a time, and a large one is refused") {
  Server server({.memory_bytes = 1 << 20});
  const std::string small(20'000, 's'), large(100'000, 'l');
  const auto mailbox = server.mailbox("episodes");
  for (int i = 0; i < 3; ++i) mailbox->put(as_bytes(small));
  mailbox->put(as_bytes(large));
  const auto others = server.budget().try_take(server.budget().limit() - server.budget().used());
  OpenSession session(server);
  const auto drain = [&session](std::uint64_t epoch, std::uint64_t seen) {
    return ask(session, frame(MessageType::kDrain, "episodes", numbers(epoch, seen))).at(0);
  };
  const auto reply = drain(0, 0);
  CHECK(reply.body.size() == 16 + 4 + small.size());
  const auto epoch = number_at<std::uint64_t>(reply.body);
  CHECK(number_at<std::uint64_t>(reply.body, 8) == 1);
  const auto answer = drain(epoch, 3);  // frees 60,000 bytes, too few
  CHECK(answer.header.status == status_of(ErrorKind::kRefused));
  CHECK(answer.text().starts_with("reply needs 100020 bytes"));
}

TEST_CASE("tables are opened, paused, closed and dropped") {
  Server server;
  OpenSession session(server);
  const auto open = [&session](std::uint8_t fresh) {
    auto payload = numbers(fresh);
    payload += as_bytes(small_table().encode());
    return ask(session, frame(MessageType::kOpenTable, "run/replay", payload)).at(0);
  };
  const auto set_state = [&session](TableState state) {
    const auto payload = numbers(static_cast<std::uint8_t>(state));
    return ask(session, frame(MessageType::kSetState, "run/replay", payload)).at(0).header.status;
  };
  const auto insert = [&session] {
    return ask(session, frame(MessageType::kInsert, "run/replay", insert_payload(chunk_of(3), 0))).at(0).header.status;
  };
  CHECK(number_at<std::uint64_t>(open(0).body) == 0);
  CHECK(insert() == kOk);
  CHECK(number_at<std::uint64_t>(open(0).body) == 3);
  CHECK(set_state(TableState::kPaused) == kOk);
  CHECK(insert() == kNothing);
  CHECK(set_state(TableState::kClosed) == kOk);
  CHECK(insert() == status_of(ErrorKind::kClosed));
  CHECK(set_state(TableState::kOpen) == kOk);
  CHECK(insert() == kOk);
  CHECK(number_at<std::uint64_t>(open(1).body) == 0);

  ask(session, frame(MessageType::kPublish, "run/policy", publish_payload(0, {})));
  ask(session, frame(MessageType::kPut, "other/episodes", put_payload("kept")));
  CHECK(number_at<std::uint64_t>(ask(session, frame(MessageType::kDrop, "run/")).at(0).body) == 2);
  CHECK(server.table_names().empty());
  CHECK(server.mailbox("other/episodes")->drain().size() == 1);
}

TEST_CASE("a claim is one owner's, and ends with its connection") {
  Server server;
  const auto claim = [](Session& session, std::uint64_t owner, const char* name = "learner", std::int64_t keep = 0) {
    return ask(session, frame(MessageType::kClaim, name, numbers(owner, std::uint64_t{0}, keep))).at(0);
  };
  OpenSession session(server, Limits{.max_claims = 2});
  {
    OpenSession other(server);
    CHECK(claim(other, 1).header.status == kOk);
    const auto refused = claim(session, 2);
    CHECK(refused.header.status == status_of(ErrorKind::kRefused));
    CHECK(refused.text().find("learner") != std::string::npos);
  }
  CHECK(claim(session, 2).header.status == kOk);
  CHECK(claim(session, 2, "actor").header.status == kOk);
  const auto third = claim(session, 2, "third");
  CHECK(third.header.status == status_of(ErrorKind::kRefused));
  CHECK(third.text().find("at most 2") != std::string::npos);
  CHECK(claim(session, 2).header.status == kOk);  // it has that one
  CHECK(server.claims().held() == std::vector<std::string>{"actor", "learner"});
  CHECK(claim(session, 2, "learner", 600'001).header.status == status_of(ErrorKind::kInvalid));
  CHECK(claim(session, 2, "learner", -1).header.status == status_of(ErrorKind::kInvalid));
}

TEST_CASE("a claim with a reservation outlives its connection, unless it is released") {
  Server server;
  const auto claim = [](Session& session, std::uint64_t owner, std::uint64_t run, std::int64_t keep) {
    return ask(session, frame(MessageType::kClaim, "learner", numbers(owner, run, keep))).at(0);
  };
  const auto claim_briefly = [&](std::int64_t keep) {
    OpenSession session(server);
    return claim(session, 1, 9, keep);
  };
  OpenSession other(server);
  CHECK(claim_briefly(600'000).header.status == kOk);
  const auto refused = claim(other, 2, 8, 600'000);
  CHECK(refused.header.status == status_of(ErrorKind::kRefused));
  CHECK(refused.text().find("kept") != std::string::npos);
  CHECK(claim_briefly(0).header.status == kOk);
  CHECK(claim(other, 2, 8, 600'000).header.status == kOk);
}

TEST_CASE("stats are JSON, with names escaped") {
  Server server({.memory_bytes = 1 << 30});
  server.add_table("re\"play", small_table());
  server.set_state("re\"play", TableState::kPaused);
  SessionOptions options;
  options.peer = "unix pid 4711";
  OpenSession session(server, options);
  ask(session, frame(MessageType::kPublish, "policy", publish_payload(7, Bytes(8))));
  ask(session, frame(MessageType::kClaim, "learner", numbers(std::uint64_t{1}, std::uint64_t{0}, std::int64_t{0})));
  server.mailbox("reports")->put(Bytes(5));
  const auto text = ask(session, frame(MessageType::kStats, "")).at(0).text();
  CAPTURE(text);
  const auto has = [&text](const std::string& part) { return text.find(part) != std::string::npos; };
  CHECK(text.starts_with("{\"instance\": " + std::to_string(server.instance()) + ", \"uptime_seconds\": "));
  CHECK(
      has(", \"memory_bytes\": " + std::to_string(server.budget().used()) + ", \"memory_limit_bytes\": 1073741824, "));
  CHECK(has(", \"data\": \"\", \"tables\": {\"re\\\"play\": {\"size\": 0, \"capacity\": 256, "));
  CHECK(
      has(", \"recovered\": 0, \"lost\": 0, \"state\": \"paused\"}}, \"parameters\": {\"policy\": {\"version\": 7, "
          "\"bytes\": 8}}, "));
  CHECK(
      has(", \"mailboxes\": {\"reports\": {\"messages\": 1, \"bytes\": 5, \"received\": 1, \"dropped\": 0}}, "
          "\"claim_count\": 1, \"claims\": [\"learner\"], \"connections\": [{\"peer\": \"unix pid 4711\", "
          "\"seconds\": "));
  CHECK(has(", \"requests\": 3, \"received_bytes\": "));
  CHECK(text.ends_with(", \"blocked\": false}]}"));
}

TEST_CASE("stats count the claims, and name a thousand") {
  Server server;
  std::vector<std::shared_ptr<Claims::Hold>> holds;
  for (int i = 0; i < 1001; ++i) holds.push_back(server.claims().claim(std::to_string(10'000 + i), 1));
  OpenSession session(server);
  const auto text = ask(session, frame(MessageType::kStats, "")).at(0).text();
  CHECK(text.find("\"claim_count\": 1001, ") != std::string::npos);
  CHECK(text.find("\"10999\"]") != std::string::npos);
  CHECK(text.find("\"11000\"") == std::string::npos);
}
