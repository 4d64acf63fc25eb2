#include <doctest/doctest.h>

#include <array>
#include <string>

#include "wire/batch_sections.h"
#include "wire/session.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

Bytes batch_in(const BatchView& view) {
  Bytes bytes;
  for (const auto section : sections_of(small_signature(), view)) bytes += section;
  return bytes;
}

}  // namespace

TEST_CASE("shared memory: batches are at the requested index, as the table samples them") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  Table twin(small_table());
  for (auto* one : {table.get(), &twin}) one->try_insert(chunk_of(20));
  std::shared_ptr<SharedRegion> region;
  OpenSession session(server, with_region(region));

  ask(session, frame(MessageType::kStats, ""));
  const auto used = server.budget().used();
  feed(session, frame(MessageType::kShare, "replay", numbers(6u, 3u)));
  CHECK(session.output_descriptor() == FakeRegion::kDescriptor);
  auto replies = replies_in(take_output(session));
  CHECK(session.output_descriptor() == -1);
  REQUIRE(replies.size() == 1);
  REQUIRE(replies[0].header.status == kOk);
  const auto stride = number_at<std::uint64_t>(replies[0].body);
  CHECK(stride == 4096);  // 9 sections of 6 transitions, each rounded up to 64 bytes: 576
  REQUIRE(region->bytes().size() == 3 * stride);
  CHECK(server.budget().used() == used + 3 * stride);

  constexpr std::uint32_t B = 6;
  Bytes block(block_bytes(small_signature(), B));
  const auto expected = lay_out(small_signature(), B, block.data());
  for (const std::uint32_t index : {2u, 0u, 1u, 2u}) {
    CAPTURE(index);
    replies = ask(session, frame(MessageType::kSampleShared, "replay", sample_shared_payload(index, B, 0.4, 0)));
    REQUIRE(replies.size() == 1);
    CHECK(replies[0].body == numbers(index));
    REQUIRE(twin.try_sample(expected, 0.4));
    CHECK(batch_in(lay_out(small_signature(), B, region->bytes().data() + index * stride)) == batch_in(expected));
  }
}

TEST_CASE("shared memory: an invalid request is refused and samples nothing") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  server.add_table("other", small_table());
  table->try_insert(chunk_of(20));
  std::shared_ptr<SharedRegion> region;
  OpenSession session(server, with_region(region, {.max_shared_bytes = 4 * 4096 - 1}));
  const auto share = [](std::uint32_t size, std::uint32_t count) {
    return frame(MessageType::kShare, "replay", numbers(size, count));
  };
  const auto sample = [](const char* name, std::uint32_t index, std::uint32_t size) {
    return frame(MessageType::kSampleShared, name, sample_shared_payload(index, size, 0.4, 0));
  };
  const auto check = [&session](const Bytes& request, ErrorKind kind, const char* names) {
    CAPTURE(names);
    const auto replies = ask(session, request);
    REQUIRE(replies.size() == 1);
    CAPTURE(replies[0].text());
    CHECK(replies[0].header.status == status_of(kind));
    CHECK(replies[0].text().find(names) != std::string::npos);
  };
  check(share(0, 3), ErrorKind::kInvalid, "batch size 0");
  check(share(65537, 3), ErrorKind::kInvalid, "65537");
  check(share(6, 0), ErrorKind::kRefused, "0 batches");
  check(share(6, 4), ErrorKind::kRefused, "4 batches");
  check(share(6, UINT32_MAX), ErrorKind::kRefused, "4294967295 batches");
  CHECK(region == nullptr);
  REQUIRE(ask(session, share(6, 3)).at(0).header.status == kOk);
  check(share(6, 3), ErrorKind::kRefused, "one for each connection");
  check(sample("replay", 3, 6), ErrorKind::kInvalid, "index 3");
  check(sample("replay", 0, 5), ErrorKind::kRefused, "6 of 'replay'");
  check(sample("other", 0, 6), ErrorKind::kRefused, "6 of 'replay'");
  auto wider = small_table();
  wider.signature.observation.shape = {200};
  server.open_table("replay", wider, true);  // another signature under the same name
  check(sample("replay", 0, 6), ErrorKind::kRefused, "float32[2]");
  CHECK(table->stats().samples == 0);
}

TEST_CASE("shared memory: each reply is sent before the next batch is gathered, and a blocked one keeps its index") {
  Server server;
  const auto table = server.add_table("replay", small_table());
  std::shared_ptr<SharedRegion> region;
  OpenSession session(server, with_region(region));
  ask(session, frame(MessageType::kShare, "replay", numbers(4u, 2u)));
  Bytes requests;
  for (const std::uint32_t index : {0u, 1u, 0u}) {
    requests += frame(MessageType::kSampleShared, "replay", sample_shared_payload(index, 4, 0.4, -1));
  }
  feed(session, requests);
  CHECK(session.blocked());
  CHECK(session.blocked_on() == table);
  table->try_insert(chunk_of(8));
  CHECK(session.resume(later(0)));
  CHECK(table->stats().samples == 4);
  const auto replies = replies_in(take_output(session));
  REQUIRE(replies.size() == 3);
  CHECK(replies[0].body == numbers(0u));
  CHECK(replies[1].body == numbers(1u));
  CHECK(replies[2].body == numbers(0u));
  CHECK(table->stats().samples == 12);
}
