// Feeds a session with anything: it must answer in whole frames, keep within its limits, tell nothing to who has not
// shown the token, and never throw.
//
// With HEADRACE_LIBFUZZER this is a libFuzzer target; otherwise main() runs a fixed number of seeded inputs: random
// bytes, and streams of valid requests with bytes changed, cut out or cut off. The first byte of an input says whether
// a token is required, and how the stream is cut.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "trials.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::uint64_t kMaxFrameBytes = 1 << 16;
constexpr std::uint64_t kMaxSharedBytes = 1 << 18;
constexpr std::uint64_t kMemoryBytes = 8 << 20;
constexpr std::uint64_t kCapacity = 64;

const Token& token() {
  static const Token kToken(as_bytes("sixteen or more bytes"));
  return kToken;
}

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_session: %s\n", what);
  std::abort();
}

TableOptions fuzzed_table() {
  auto options = limited_table();
  options.capacity = kCapacity;
  return options;
}

Bytes output_of(Session& session, std::int64_t time) {
  const int descriptor = session.output_descriptor();
  require(descriptor == -1 || descriptor == FakeRegion::kDescriptor, "an unknown descriptor");
  return take_output(session, later(time));
}

// Everything that the session answers, until it has taken all or closes.
Bytes answer(Session& session, std::span<const std::byte> bytes, std::size_t step) {
  Bytes output;
  std::int64_t time = 0;
  for (std::size_t at = 0; at < bytes.size() && !session.closing();) {
    at += feed(session, bytes.subspan(at, std::min(step, bytes.size() - at)), later(time));
    output += output_of(session, time);
    while (session.blocked() || session.yielded()) {
      if (session.yielded()) {
        session.resume(later(time));
        output += output_of(session, time);
        continue;
      }
      if (session.deadline() == never()) {
        session.blocked_on()->close();  // what is held for ever ends so
      } else {
        time += 1'000'000'000;
      }
      const auto held = session.deadline();
      require(session.resume(later(time)) || session.deadline() != held || held == never(),
              "a held request outlived its table or its deadline");
      output += output_of(session, time);
    }
    session.expire(later(time));
    output += output_of(session, time);
  }
  require(session.closing() || session.wants_input(), "a session that neither closes nor goes on");
  return output;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Server server({.memory_bytes = kMemoryBytes});
  const auto table = server.add_table("replay", fuzzed_table());
  table->try_insert(chunk_of(8));
  std::shared_ptr<SharedRegion> region;
  auto options = with_region(region, {.max_frame_bytes = kMaxFrameBytes, .max_shared_bytes = kMaxSharedBytes});
  if (data[0] % 2 == 1) options.token = &token();
  options.yields = data[0] % 4 >= 2;
  OpenSession session(server, options);
  const auto output = answer(session, std::as_bytes(std::span(data + 1, size - 1)), 1 + 37 * std::size_t{data[0]});
  for (const auto& reply : replies_in(output)) {
    require(reply.header.type >= kReplyBit, "a reply without the reply bit");
    require(reply.header.length <= kMaxFrameBytes, "a reply beyond the limit");
    const auto hello = static_cast<std::uint8_t>(MessageType::kHello) | kReplyBit;
    require(session.proven() || reply.header.type == hello || (reply.header.status != kOk && session.closing()),
            "an answer without the token");
  }
  require(session.proven() || (table->size() == 8 && server.meters()[0]->requests.load() <= 2),
          "more than a hello done");
  require(table->size() <= kCapacity, "more stored than the capacity");
  require(server.budget().used() <= kMemoryBytes, "more memory than the budget");
  require(!region || region->bytes().size() <= kMaxSharedBytes, "more shared than the limit");
  return 0;
}

#ifndef HEADRACE_LIBFUZZER
namespace {

Bytes handshake(std::mt19937_64& random) {
  const Nonce nonce{};
  Bytes bytes = frame(MessageType::kHello, "", nonce);
  if (random() % 8 != 0) bytes += frame(MessageType::kAuthenticate, "", token().client_proof(Nonce{}, nonce));
  return bytes;
}

Bytes open_payload(std::mt19937_64& random) {
  auto payload = numbers(static_cast<std::uint8_t>(random() % 2));
  payload += as_bytes(fuzzed_table().encode());
  return payload;
}

Bytes open_shard(std::mt19937_64& random, const char* name, std::uint64_t i) {
  ShardOptions options{.size = 1 + random() % 3, .policy = static_cast<StalenessPolicy>(random() % 4)};
  options.optimizer.kind = static_cast<OptimizerOptions::Kind>(random() % 6);
  const auto text = options.encode();
  auto payload = numbers(static_cast<std::uint8_t>(random() % 2), static_cast<std::uint32_t>(text.size()));
  payload += as_bytes(text);
  if (random() % 4 != 0) payload.resize(payload.size() + options.size * sizeof(float));
  return frame(MessageType::kOpenShard, name, payload, i);
}

Bytes push_gradient(std::mt19937_64& random, std::string_view name, std::uint64_t i) {
  const auto place = static_cast<std::uint8_t>(random() % 3);
  auto payload = numbers(random() % 3, random() % 4, random() % 2, random() % 2, place);
  if (place == 0) payload.resize(payload.size() + gradient_padding(name.size()) + (1 + random() % 3) * sizeof(float));
  return frame(MessageType::kPushGradient, name, payload, i);
}

// Several together, since without a shard all but the first are refused.
Bytes shard_requests(std::mt19937_64& random, std::uint64_t i) {
  const char* name = random() % 2 == 0 ? "model/0" : "model/1";
  Bytes bytes = open_shard(random, name, i);
  if (random() % 2 == 0) bytes += frame(MessageType::kShareShard, name, {}, i);
  for (auto more = random() % 4; more > 0; --more) {
    const auto place = static_cast<std::uint8_t>(random() % 2);
    const auto newer_than = static_cast<std::int64_t>(random() % 3) - 1;
    bytes += frame(MessageType::kFetchShard, name, numbers(random() % 3, newer_than, place), i);
    bytes += push_gradient(random, name, i);
  }
  if (random() % 4 == 0) bytes += frame(MessageType::kShardState, name, {}, i);
  if (random() % 4 == 0) bytes += frame(MessageType::kLoadShard, name, numbers(random() % 4, 1.0f, 2.0f), i);
  return bytes;
}

Bytes valid_request(std::mt19937_64& random, std::uint64_t i) {
  const char* table = random() % 4 == 0 ? "other" : "replay";
  const auto size = static_cast<std::uint32_t>(1 + random() % 8);
  const auto wait = static_cast<std::int64_t>(random() % 3) - 1;
  switch (random() % 20) {
    case 0:
      return frame(MessageType::kSignature, table, {}, i);
    case 1:
      return frame(MessageType::kSample, table, sample_payload(size, 0.5, wait), i);
    case 2:
      return frame(MessageType::kUpdatePriorities, table, numbers(random() % 16, 2.0f), i);
    case 3:
      return frame(MessageType::kPublish, "policy",
                   numbers(random() % 2, 8 + random() % 2 * 8, random() % 2 * 8, random()), i);
    case 4:
      return frame(MessageType::kFetch, "policy", numbers(random() % 4, random() % 2 * 8), i);
    case 5:
      return frame(MessageType::kPut, "episodes", numbers(random() % 2, random() % 4, random()), i);
    case 6:
      return frame(MessageType::kDrain, "episodes", numbers(random() % 2, random() % 4), i);
    case 7:
      return frame(MessageType::kStats, "", {}, i);
    case 8:
      return handshake(random);
    case 9:
      return frame(MessageType::kOpenTable, table, open_payload(random), i);
    case 10:
      return frame(MessageType::kSetState, table, numbers(static_cast<std::uint8_t>(random() % 3)), i);
    case 11:
      return frame(MessageType::kDrop, std::array{"o", "p", "m"}[random() % 3], {}, i);
    case 12:
      return frame(MessageType::kClaim, "learner",
                   numbers(random() % 2, random() % 2, static_cast<std::int64_t>(random() % 3)), i);
    case 13:
      return frame(MessageType::kShare, table, numbers(size, static_cast<std::uint32_t>(random() % 4)), i);
    case 14: {
      // Both together, since one alone is always refused.
      Bytes bytes = frame(MessageType::kShare, "replay", numbers(4u, 2u), i);
      const auto index = static_cast<std::uint32_t>(random() % 3);
      bytes += frame(MessageType::kSampleShared, "replay", sample_shared_payload(index, 4, 0.5, wait), i);
      return bytes;
    }
    case 15:
    case 16:
    case 17:
      return shard_requests(random, i);
    default:
      return frame(MessageType::kInsert, table, insert_payload(chunk_of(size, random() % 2, random() % 4), wait), i);
  }
}

Bytes valid_requests(std::mt19937_64& random, bool proven) {
  Bytes bytes;
  if (proven) bytes += handshake(random);
  const std::uint64_t count = 1 + random() % 6;
  for (std::uint64_t i = 0; i < count; ++i) bytes += valid_request(random, i);
  return bytes;
}

void damage(Bytes& bytes, std::mt19937_64& random) {
  for (auto changes = random() % 4; changes > 0; --changes) {
    bytes[random() % bytes.size()] = static_cast<std::byte>(random());
  }
  if (random() % 4 == 0) bytes.resize(1 + random() % bytes.size());
  if (random() % 8 == 0) bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(random() % bytes.size()));
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : trials(20000);
  std::mt19937_64 random(20240607);
  for (int round = 0; round < rounds; ++round) {
    const auto control = static_cast<std::byte>(random());
    const bool token_required = std::to_integer<int>(control) % 2 == 1;
    Bytes bytes = valid_requests(random, token_required && random() % 4 != 0);
    if (round % 4 == 3) {
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    } else if (round % 4 != 0) {
      damage(bytes, random);
    }
    bytes.insert(bytes.begin(), control);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("fuzz_session: %d inputs\n", rounds);
  return 0;
}
#endif
