#include <doctest/doctest.h>

#include <string>

#include "wire/session.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

const Token& token() {
  static const Token kToken(as_bytes("sixteen or more bytes"));
  return kToken;
}

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

SessionOptions with_token(Limits limits = {}) {
  auto options = with_limits(limits);
  options.token = &token();
  options.nonce = nonce_of(1);
  return options;
}

Bytes hello(int nonce = 2) { return frame(MessageType::kHello, "", nonce_of(nonce)); }

Bytes proof(const Proof& proof) { return frame(MessageType::kAuthenticate, "", proof); }

Bytes good_proof() { return proof(token().client_proof(nonce_of(1), nonce_of(2))); }

// Answered with an error that says `names`, and the connection closes.
void check_refused(Session& session, const Bytes& request, ErrorKind kind, const std::string& names) {
  const auto replies = ask(session, request);
  REQUIRE(replies.size() == 1);
  CAPTURE(replies[0].text());
  CHECK(replies[0].header.status == status_of(kind));
  CHECK(replies[0].text().find(names) != std::string::npos);
  CHECK(replies[0].text().ends_with("the connection is closed"));
  CHECK(session.closing());
  CHECK_FALSE(session.proven());
}

}  // namespace

TEST_CASE("each side proves that it knows the token") {
  Server server;
  OpenSession session(server, with_token());
  CHECK_FALSE(session.proven());
  auto replies = ask(session, hello());
  REQUIRE(replies.size() == 1);
  Bytes expected = numbers(server.instance(), std::uint8_t{1});
  expected += nonce_of(1);
  CHECK(replies[0].body == expected);
  CHECK_FALSE(session.proven());
  replies = ask(session, good_proof());
  REQUIRE(replies.size() == 1);
  REQUIRE(replies[0].header.status == kOk);
  const auto answer = token().server_proof(nonce_of(2), nonce_of(1));
  CHECK(replies[0].body == Bytes(answer.begin(), answer.end()));
  CHECK(session.proven());
  CHECK(ask(session, frame(MessageType::kPut, "episodes", Bytes(5000))).at(0).header.status == kOk);
  CHECK(ask(session, good_proof()).at(0).header.status == status_of(ErrorKind::kInvalid));
  CHECK_FALSE(session.closing());
}

TEST_CASE("a hello, its proof and requests may arrive together") {
  Server server;
  OpenSession session(server, with_token());
  auto requests = hello();
  requests += good_proof();
  requests += frame(MessageType::kPut, "episodes", put_payload("first"));
  const auto replies = ask(session, requests);
  REQUIRE(replies.size() == 3);
  CHECK(replies[2].header.status == kOk);
  CHECK(server.mailbox("episodes")->drain().size() == 1);
}

TEST_CASE("where the token is optional, the server proves it to a peer that does") {
  Server server;
  auto options = with_token();
  options.token_required = false;
  OpenSession session(server, options);
  CHECK(session.proven());
  CHECK(ask(session, frame(MessageType::kStats, "")).at(0).header.status == kOk);
  CHECK(number_at<std::uint8_t>(ask(session, hello()).at(0).body, 8) == 2);
  CHECK(ask(session, proof(token().client_proof(nonce_of(3), nonce_of(2)))).at(0).header.status ==
        status_of(ErrorKind::kRefused));
  const auto reply = ask(session, good_proof()).at(0);
  const auto expected = token().server_proof(nonce_of(2), nonce_of(1));
  CHECK(reply.body == Bytes(expected.begin(), expected.end()));
  CHECK(ask(session, good_proof()).at(0).header.status == status_of(ErrorKind::kInvalid));
}

TEST_CASE("without the token every request is answered with an error") {
  Server server;
  server.add_table("replay", small_table());
  const auto put = frame(MessageType::kPut, "episodes", put_payload("no"));
  auto wrong = token().client_proof(nonce_of(1), nonce_of(2));
  wrong[31] ^= std::byte{1};
  const auto reflected = token().server_proof(nonce_of(2), nonce_of(1));
  const auto of_another_connection = token().client_proof(nonce_of(3), nonce_of(2));
  struct Case {
    Bytes before;
    Bytes request;
    ErrorKind kind;
    const char* names;
  };
  const std::vector<Case> cases = {
      {{}, put, ErrorKind::kRefused, "token"},
      {{}, frame(MessageType::kStats, ""), ErrorKind::kRefused, "token"},
      {{}, frame(MessageType::kSignature, "replay"), ErrorKind::kRefused, "token"},
      {{}, frame(static_cast<MessageType>(200), ""), ErrorKind::kRefused, "token"},
      {hello(), put, ErrorKind::kRefused, "token"},
      {hello(), proof(wrong), ErrorKind::kRefused, "token"},
      {hello(), proof(reflected), ErrorKind::kRefused, "token"},
      {hello(), proof(of_another_connection), ErrorKind::kRefused, "token"},
      {hello(), frame(MessageType::kAuthenticate, "", Bytes(31)), ErrorKind::kMalformed, "proof"},
      {hello(), hello(), ErrorKind::kInvalid, "once"},
      {{}, good_proof(), ErrorKind::kInvalid, "hello"},
      {{}, frame(MessageType::kHello, "", Bytes(31)), ErrorKind::kMalformed, "nonce"},
      {{}, frame(MessageType::kHello, "me", Bytes(32)), ErrorKind::kRefused, "name"},
      {{}, frame(MessageType::kHello, "", Bytes(1023)), ErrorKind::kRefused, "1025 bytes: at most 1024"},
  };
  for (const auto& c : cases) {
    CAPTURE(c.names);
    OpenSession session(server, with_token());
    ask(session, c.before);
    check_refused(session, c.request, c.kind, c.names);
    CHECK(feed(session, good_proof()) == 0);
  }
  CHECK(server.mailbox("episodes")->drain().empty());
}

TEST_CASE("a frame that is too large before the proof is refused by its header alone") {
  Server server;
  OpenSession session(server, with_token());
  const auto insert = frame(MessageType::kInsert, "replay", Bytes(5000));
  check_refused(session, Bytes(insert.begin(), insert.begin() + kFrameHeaderBytes), ErrorKind::kRefused, "token");
}

TEST_CASE("if no token is required, hello is optional") {
  Server server;
  OpenSession session(server);
  CHECK(session.proven());
  CHECK(ask(session, frame(MessageType::kStats, "")).at(0).header.status == kOk);
  const auto reply = ask(session, hello()).at(0);
  CHECK(reply.body.size() == 8 + 1 + 32);
  CHECK(number_at<std::uint64_t>(reply.body) == server.instance());
  CHECK(number_at<std::uint8_t>(reply.body, 8) == 0);
  CHECK(ask(session, hello()).at(0).header.status == status_of(ErrorKind::kInvalid));
  CHECK(ask(session, good_proof()).at(0).header.status == status_of(ErrorKind::kInvalid));
  CHECK_FALSE(session.closing());
}

TEST_CASE("a frame that exceeds the budget is refused, and closes") {
  Server server({.memory_bytes = 300'000});
  const auto publish = frame(MessageType::kPublish, "policy", Bytes(1'000'000));
  {
    OpenSession session(server);
    CHECK(feed(session, publish) < publish.size());
    const auto replies = replies_in(take_output(session));
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].header.status == status_of(ErrorKind::kRefused));
    CHECK(replies[0].text().find("300000") != std::string::npos);
    CHECK(session.closing());
  }
  CHECK(server.budget().used() == 0);
  OpenSession session(server);
  CHECK(ask(session, frame(MessageType::kStats, "")).at(0).header.status == kOk);
  CHECK(server.budget().used() == ReceiveBuffer::kFirstBytes);
}

TEST_CASE("a batch or shared memory beyond the budget is refused, and the connection stays usable") {
  auto options = small_table();
  Server server({.memory_bytes = Table::memory_bytes(options) + 8192});
  server.add_table("replay", options)->try_insert(chunk_of(20));
  std::shared_ptr<SharedRegion> region;
  OpenSession session(server, with_region(region));
  const auto sample = [&session](std::uint32_t size) {
    return ask(session, frame(MessageType::kSample, "replay", sample_payload(size, 0.4, 0))).at(0).header.status;
  };
  const auto share = [&session](std::uint32_t count) {
    return ask(session, frame(MessageType::kShare, "replay", numbers(4u, count))).at(0).header.status;
  };
  CHECK(sample(200) == status_of(ErrorKind::kRefused));  // 200 x 56 bytes
  CHECK(sample(64) == kOk);
  CHECK(share(2) == status_of(ErrorKind::kRefused));
  CHECK(region == nullptr);
  CHECK(share(1) == kOk);
  CHECK_FALSE(session.closing());
}

TEST_CASE("a peer that does not show the token in time is closed") {
  Server server;
  OpenSession session(server, with_token());
  session.expire(later(9'999));
  CHECK_FALSE(session.closing());
  ask(session, hello());
  session.expire(later(10'000));
  CHECK(session.closing());
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kSystem));
  CHECK(replies[0].header.request == 0);
  CHECK(replies[0].text().starts_with("token: not shown within 10 s"));

  OpenSession proven(server, with_token());
  ask(proven, hello());
  ask(proven, good_proof());
  proven.expire(later(10'000));
  CHECK_FALSE(proven.closing());
}

TEST_CASE("a peer that stops within a frame is closed, but not while the session reads nothing") {
  Server server;
  server.parameters().publish("policy", 1, Bytes(1000));
  OpenSession session(server, Limits{.max_queued_bytes = 500, .output_wait = std::chrono::hours(1)});
  const auto fetch = frame(MessageType::kFetch, "policy", fetch_payload(0));
  auto requests = fetch;
  requests += std::span(fetch).first(10);
  feed(session, requests, later(0));
  CHECK_FALSE(session.wants_input());
  session.expire(later(70'000));
  CHECK_FALSE(session.closing());
  take_output(session, later(70'000));
  session.expire(later(129'999));
  CHECK_FALSE(session.closing());
  session.expire(later(130'000));
  CHECK(session.closing());
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].header.status == status_of(ErrorKind::kSystem));
  CHECK(replies[0].header.request == 0);
  CHECK(replies[0].text().starts_with("frame: too little of it arrived within 60 s"));
}

TEST_CASE("a peer that sends a frame byte by byte is closed, but not one that sends 64 KiB/s") {
  Server server;
  const auto put = frame(MessageType::kPut, "episodes", Bytes(12'000'000));
  OpenSession trickling(server);
  feed(trickling, std::span(put).first(10), later(0));
  for (std::size_t at = 10; at < 12; ++at) feed(trickling, std::span(put).subspan(at, 1), later(59'000));
  trickling.expire(later(60'001));
  CHECK(trickling.closing());

  OpenSession slow(server);
  std::int64_t seconds = 0;
  for (std::size_t at = 0; at < put.size(); at += 64 << 10, ++seconds) {
    feed(slow, std::span(put).subspan(at, std::min<std::size_t>(64 << 10, put.size() - at)), later(seconds * 1000));
    slow.expire(later(seconds * 1000 + 999));
    REQUIRE_FALSE(slow.closing());
  }
  CHECK(seconds > 180);
  CHECK(replies_in(take_output(slow)).at(0).header.status == kOk);

  OpenSession another(server);  // a frame has the full time, even if it begins with the end of a slow one
  const auto request = frame(MessageType::kStats, "");
  feed(another, std::span(request).first(10), later(0));
  Bytes rest(request.begin() + 10, request.end());
  rest += std::span(request).first(10);
  feed(another, rest, later(59'000));
  another.expire(later(118'999));
  CHECK_FALSE(another.closing());

  OpenSession fast(server);  // what came fast at first is no credit for later
  feed(fast, std::span(put).first(10'000'000), later(0));
  fast.expire(later(59'999));
  CHECK_FALSE(fast.closing());
  fast.expire(later(60'000));
  CHECK(fast.closing());
}

TEST_CASE("time in which no session was served does not count") {
  Server server;
  server.parameters().publish("policy", 1, Bytes(1000));
  OpenSession within_a_frame(server), unproven(server, with_token()), silent(server), deaf(server);
  feed(within_a_frame, std::span<const std::byte>(frame(MessageType::kStats, "")).first(10), later(0));
  feed(deaf, frame(MessageType::kFetch, "policy", fetch_payload(0)), later(0));
  const auto check = [](OpenSession& session, std::int64_t wait) {
    session.excuse(std::chrono::seconds(100));
    session.expire(later(100'000 + wait - 1));
    CHECK_FALSE(session.closing());
    session.expire(later(100'000 + wait));
    CHECK(session.closing());
  };
  check(within_a_frame, 60'000);
  check(unproven, 10'000);
  check(silent, 10'000);
  check(deaf, 60'000);
}

TEST_CASE("a peer that connects and sends no request is closed after proof_wait") {
  Server server;
  OpenSession silent(server);
  silent.expire(later(9'999));
  CHECK_FALSE(silent.closing());
  silent.expire(later(10'000));
  CHECK(silent.closing());
  OpenSession asking(server);
  ask(asking, hello());
  asking.expire(later(10'000));
  CHECK_FALSE(asking.closing());
  OpenSession idle(server, Limits{.idle_wait = std::chrono::seconds(3)});  // which is less
  idle.expire(later(2'999));
  CHECK_FALSE(idle.closing());
  idle.expire(later(3'000));
  CHECK(idle.closing());
}

TEST_CASE("a peer that does not read its replies is closed") {
  Server server;
  server.parameters().publish("policy", 1, Bytes(1000));
  OpenSession session(server);
  feed(session, frame(MessageType::kFetch, "policy", fetch_payload(0)), later(5'000));
  session.expire(later(64'999));
  CHECK_FALSE(session.closing());
  session.consumed(1, later(64'999));  // which is no more than nothing
  session.expire(later(65'001));
  CHECK(session.broken());
  CHECK(session.closing());

  OpenSession refused(server);  // whose last error is not taken either
  feed(refused, Bytes(kFrameHeaderBytes), later(5'000));
  CHECK(refused.closing());
  refused.expire(later(64'999));
  CHECK_FALSE(refused.broken());
  refused.expire(later(65'000));
  CHECK(refused.broken());
}

TEST_CASE("a peer that takes its replies is not closed, though there are always more of them") {
  Server server;
  server.add_table("replay", small_table());
  OpenSession session(server);
  const auto request = frame(MessageType::kPut, "episodes", Bytes(1));
  feed(session, request, later(0));
  for (int at = 1; at < 200'000; at += 1'000) {  // a reply, which is far less than 64 KiB/s
    std::size_t reply = 0;
    for (const auto& buffer : session.output()) reply += buffer.size();
    feed(session, request, later(at));
    session.consumed(reply, later(at));
    session.expire(later(at));
    REQUIRE_FALSE(session.broken());
  }
  session.expire(later(199'001 + 60'000));
  CHECK(session.broken());
}

TEST_CASE("an idle peer is closed, but not one that waits for a reply") {
  Server server;
  server.add_table("replay", small_table());
  OpenSession session(server, Limits{.output_wait = std::chrono::hours(2)});
  feed(session, frame(MessageType::kSample, "replay", sample_payload(4, 0.4, -1)), later(1'000));
  session.expire(later(9'000'000));
  CHECK_FALSE(session.closing());
  server.table("replay")->try_insert(chunk_of(8));
  CHECK(session.resume(later(9'000'000)));
  session.expire(later(9'000'000 + 3'600'000));
  CHECK_FALSE(session.closing());  // the reply waits
  take_output(session, later(9'000'000));
  session.expire(later(9'000'000 + 3'599'999));
  CHECK_FALSE(session.closing());
  session.expire(later(9'000'000 + 3'600'000));
  CHECK(session.closing());
  CHECK(session.output().empty());
}

TEST_CASE("a connection's meter counts its requests and bytes") {
  Server server;
  const auto table = server.add_table("replay", limited_table());
  SessionOptions options;
  options.peer = "tcp 10.0.0.2:53142";
  OpenSession session(server, options);
  const auto meters = server.meters();
  REQUIRE(meters.size() == 1);
  CHECK(meters[0]->peer == "tcp 10.0.0.2:53142");
  const auto insert = frame(MessageType::kInsert, "replay", insert_payload(chunk_of(8), 50));
  std::uint64_t requests = 0;
  std::uint64_t sent = 0;
  while (!session.blocked()) {
    REQUIRE(requests < 16);
    CHECK_FALSE(meters[0]->blocked.load());
    feed(session, insert);
    ++requests;
    sent += take_output(session).size();
  }
  CHECK(meters[0]->blocked.load());
  CHECK(meters[0]->requests.load() == requests);
  CHECK(meters[0]->received_bytes.load() == requests * insert.size());
  CHECK(meters[0]->sent_bytes.load() == sent);
  CHECK(session.resume(later(50)));
  CHECK_FALSE(meters[0]->blocked.load());
}
