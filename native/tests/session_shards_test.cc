// Shards over the wire, frame by frame.
#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "wire/session.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

ShardOptions descent(std::size_t size) {
  return {.size = size, .optimizer = {.kind = OptimizerOptions::Kind::kSgd, .learning_rate = 0.5}};
}

Bytes floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Bytes open_request(const char* name, const std::vector<float>& initial, bool fresh = true) {
  const auto text = descent(initial.size()).encode();
  auto payload = numbers(static_cast<std::uint8_t>(fresh), static_cast<std::uint32_t>(text.size()));
  payload += as_bytes(text);
  payload += floats(initial);
  return frame(MessageType::kOpenShard, name, payload);
}

Bytes push_request(std::string_view name, const std::vector<float>& gradient, std::uint64_t sequence,
                   std::uint64_t base = 0) {
  auto payload = numbers(std::uint64_t{5}, sequence, base, std::uint64_t{0}, std::uint8_t{0});
  payload.resize(payload.size() + gradient_padding(name.size()));
  payload += floats(gradient);
  return frame(MessageType::kPushGradient, name, payload);
}

Bytes push_from(const char* name, GradientPlace place, std::uint64_t sequence) {
  return frame(
      MessageType::kPushGradient, name,
      numbers(std::uint64_t{5}, sequence, std::uint64_t{0}, std::uint64_t{0}, static_cast<std::uint8_t>(place)));
}

Bytes fetch_request(const char* name, std::int64_t newer_than, GradientPlace place = GradientPlace::kFrame) {
  return frame(MessageType::kFetchShard, name, numbers(std::uint64_t{5}, newer_than, static_cast<std::uint8_t>(place)));
}

Bytes answer_of(std::uint64_t version, std::uint64_t staleness, std::uint8_t verdict) {
  return numbers(version, staleness, verdict);
}

Reply ask_one(Session& session, const Bytes& request) {
  const auto replies = ask(session, request);
  REQUIRE(replies.size() == 1);
  return replies[0];
}

void check_refused(Session& session, const Bytes& request, ErrorKind kind, const char* names) {
  CAPTURE(names);
  const auto reply = ask_one(session, request);
  CAPTURE(reply.text());
  CHECK(reply.header.status == status_of(kind));
  CHECK(reply.text().find(names) != std::string::npos);
}

Bytes with_version(std::uint64_t version, const std::vector<float>& values) {
  auto bytes = numbers(version);
  bytes += floats(values);
  return bytes;
}

}  // namespace

TEST_CASE("a shard is opened, pushed to and fetched from") {
  Server server;
  OpenSession session(server);
  CHECK(ask_one(session, open_request("model/0", {1, 2})).body == numbers(std::uint64_t{0}));
  CHECK(ask_one(session, fetch_request("model/0", -1)).body == with_version(0, {1, 2}));
  CHECK(ask_one(session, fetch_request("model/0", 0)).header.status == kNothing);
  CHECK(ask_one(session, push_request("model/0", {2, 4}, 1)).body == answer_of(1, 0, 0));
  CHECK(ask_one(session, push_request("model/0", {2, 4}, 1)).body == answer_of(1, 0, 0));  // once more
  CHECK(ask_one(session, fetch_request("model/0", 0)).body == with_version(1, {0, 0}));
  CHECK(ask_one(session, push_from("model/0", GradientPlace::kNowhere, 2)).body == answer_of(1, 1, 2));
  CHECK(ask_one(session, frame(MessageType::kShardState, "model/0")).body == with_version(1, {0, 0}));
  CHECK(ask_one(session, frame(MessageType::kLoadShard, "model/0", with_version(7, {3, 4}))).header.status == kOk);
  CHECK(ask_one(session, fetch_request("model/0", 1)).body == with_version(7, {3, 4}));
  CHECK(ask_one(session, open_request("model/0", {0, 0}, false)).body == numbers(std::uint64_t{7}));
  CHECK(ask_one(session, frame(MessageType::kDrop, "model/")).body == numbers(std::uint64_t{1}));
  check_refused(session, fetch_request("model/0", 0), ErrorKind::kNotFound, "model/0");
}

TEST_CASE("a gradient is applied at any address of its frame") {
  Server server;
  OpenSession session(server);
  for (const std::string name : {"m", "mo", "mod", "mode"}) {
    CAPTURE(name);
    ask(session, open_request(name.c_str(), {1, 2, 3}));
    auto requests = frame(MessageType::kFetch, "x", fetch_payload(0));  // of an odd length
    requests += push_request(name, {2, 2, 2}, 1);
    requests += fetch_request(name.c_str(), -1);
    const auto replies = ask(session, requests);
    REQUIRE(replies.size() == 3);
    CHECK(replies[2].body == with_version(1, {0, 1, 2}));
  }
}

TEST_CASE("in a separate frame a gradient is aligned for floats") {
  for (std::size_t name = 1; name <= 8; ++name) {
    const auto request = push_request(std::string(name, 'm'), {1, 2}, 1);
    CHECK((request.size() - 2 * sizeof(float)) % sizeof(float) == 0);
    CHECK(gradient_padding(name) < sizeof(float));
  }
}

TEST_CASE("shards: invalid requests are refused") {
  Server server;
  OpenSession session(server);
  ask(session, open_request("model/0", {1, 2}));
  check_refused(session, push_request("model/1", {1, 2}, 1), ErrorKind::kNotFound, "model/1");
  check_refused(session, push_request("model/0", {1}, 1), ErrorKind::kRefused, "8 required");
  check_refused(session, frame(MessageType::kPushGradient, "model/0", numbers(std::uint64_t{5})), ErrorKind::kMalformed,
                "sequence");
  check_refused(session, frame(MessageType::kLoadShard, "model/0", with_version(1, {1})), ErrorKind::kRefused,
                "8 required");
  check_refused(session, frame(MessageType::kShardState, "model/0", numbers(1u)), ErrorKind::kMalformed, "");
  check_refused(session, push_from("model/0", GradientPlace::kShared, 1), ErrorKind::kRefused, "share it first");
  check_refused(session, push_from("model/0", static_cast<GradientPlace>(3), 1), ErrorKind::kMalformed, "place 3");
  check_refused(session, fetch_request("model/0", 0, GradientPlace::kNowhere), ErrorKind::kMalformed, "place 2");
  check_refused(session, frame(MessageType::kShareShard, "model/0"), ErrorKind::kRefused, "Unix socket");
  check_refused(session, frame(MessageType::kOpenShard, "model/1", numbers(std::uint8_t{2}, 0u)), ErrorKind::kMalformed,
                "fresh 2");
  check_refused(session, frame(MessageType::kOpenShard, "model/1", numbers(std::uint8_t{1}, 9u)), ErrorKind::kMalformed,
                "options");
  CHECK(server.shards().find("model/0")->stats().accepted == 0);
}

TEST_CASE("gradients and parameters in shared memory") {
  Server server;
  std::shared_ptr<SharedRegion> region;
  OpenSession session(server, with_region(region));
  ask(session, open_request("model/0", {1, 2}));
  ask(session, open_request("model/1", {1, 2}));
  const auto used = server.budget().used();
  feed(session, frame(MessageType::kShareShard, "model/0"));
  CHECK(session.output_descriptor() == FakeRegion::kDescriptor);
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 1);
  const auto stride = number_at<std::uint64_t>(replies[0].body);
  CHECK(stride == 4096);
  CHECK(server.budget().used() == used + 2 * stride);
  const auto at = [&](std::size_t offset) { return reinterpret_cast<float*>(region->bytes().data() + offset); };

  CHECK(ask_one(session, fetch_request("model/0", -1, GradientPlace::kShared)).body == numbers(std::uint64_t{0}));
  CHECK(at(stride)[0] == 1);
  CHECK(at(stride)[1] == 2);
  at(0)[0] = 4;
  at(0)[1] = -2;
  CHECK(ask_one(session, push_from("model/0", GradientPlace::kShared, 1)).body == answer_of(1, 0, 0));
  CHECK(at(stride)[0] == 1);  // until it is fetched
  CHECK(ask_one(session, fetch_request("model/0", 0, GradientPlace::kShared)).body == numbers(std::uint64_t{1}));
  CHECK(at(stride)[0] == -1);
  CHECK(at(stride)[1] == 3);
  CHECK(ask_one(session, fetch_request("model/0", 1, GradientPlace::kShared)).header.status == kNothing);

  check_refused(session, frame(MessageType::kShareShard, "model/1"), ErrorKind::kRefused, "one for each connection");
  check_refused(session, push_from("model/1", GradientPlace::kShared, 2), ErrorKind::kRefused, "model/1");
  ask(session, open_request("model/0", {1, 2, 3}));  // another size under the same name
  check_refused(session, push_from("model/0", GradientPlace::kShared, 2), ErrorKind::kRefused, "12 bytes");
}

TEST_CASE("shards are made in a separate thread, then used in others, each shard in that of its lane") {
  Server server;
  SessionOptions options;
  options.yields = true;
  OpenSession session(server, options);
  auto requests = open_request("model/0", {1, 2});
  requests += open_request("model/1", {1, 2});
  feed(session, requests);
  for (std::size_t lane = 0; lane < 2; ++lane) {
    CHECK(session.yielded());
    CHECK(session.place() == Session::Place::kSlow);
    CHECK(take_output(session).empty());
    session.resume(later(0));
    CHECK(session.yielded());
    CHECK(session.place() == Session::Place::kShards);
    CHECK(session.lane() == lane);
    CHECK(replies_in(take_output(session)).size() == 1);
    session.resume(later(0));
  }
  ask(session, fetch_request("model/0", -1));
  CHECK(session.lane() == 0);
  ask(session, frame(MessageType::kStats, ""));
  CHECK(session.place() == Session::Place::kShards);
  feed(session, frame(MessageType::kLoadShard, "model/1"));  // which may write a file
  CHECK(session.yielded());
  CHECK(session.place() == Session::Place::kSlow);
}

TEST_CASE("statistics include the shards") {
  Server server;
  OpenSession session(server);
  ask(session, open_request("model/0", {1, 2}));
  ask(session, push_request("model/0", {2, 4}, 1));
  ask(session, push_request("model/0", {2, 4}, 2));
  ask(session, push_from("model/0", GradientPlace::kNowhere, 3));
  const auto text = ask_one(session, frame(MessageType::kStats, "")).text();
  CAPTURE(text);
  CHECK(text.find("\"model/0\": {\"size\": 2, ") != std::string::npos);
  CHECK(text.find("\"accepted\": 2, \"dropped\": 0, \"refused\": 1, ") != std::string::npos);
  CHECK(text.find("\"staleness\": [1, 1, 1]") != std::string::npos);
}
