// Feeds a session with anything: it must answer in whole frames, keep within its limits, and never throw.
//
// With HEADRACE_LIBFUZZER this is a libFuzzer target; otherwise main() runs a fixed number of seeded inputs: random
// bytes, and streams of valid requests with bytes changed, cut out or cut off.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::uint64_t kMaxFrameBytes = 1 << 16;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_session: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Server server;
  auto options = limited_table();
  options.capacity = 64;
  const auto table = server.add_table("replay", options);
  table->try_insert(chunk_of(8));
  Session session(server, {.max_frame_bytes = kMaxFrameBytes});
  const auto bytes = std::as_bytes(std::span(data, size));
  const std::size_t step = size > 0 ? 1 + 37 * std::size_t{data[0]} : 1;
  Bytes output;
  std::int64_t time = 0;
  for (std::size_t at = 0; at < size && !session.closing();) {
    at += feed(session, bytes.subspan(at, std::min(step, size - at)), later(time));
    output += take_output(session, later(time));
    if (!session.blocked()) continue;
    if (session.deadline() == never()) {
      table->close();  // what is held for ever ends so
    } else {
      time += 1'000'000'000;
    }
    require(session.resume(later(time)), "a held request outlived its table or its deadline");
    output += take_output(session, later(time));
  }
  for (const auto& reply : replies_in(output)) {
    require(reply.header.type >= kReplyBit, "a reply without the reply bit");
    require(reply.header.length <= kMaxFrameBytes, "a reply beyond the limit");
  }
  require(table->size() <= options.capacity, "more stored than the capacity");
  return 0;
}

#ifndef HEADRACE_LIBFUZZER
namespace {

Bytes valid_requests(std::mt19937_64& random) {
  const auto request = [&](std::uint64_t i) -> Bytes {
    const auto size = static_cast<std::uint32_t>(1 + random() % 8);
    switch (random() % 9) {
      case 0:
        return frame(MessageType::kSignature, "replay", {}, i);
      case 1:
        return frame(MessageType::kSample, "replay", sample_payload(size, 0.5, static_cast<int>(random() % 3) - 1), i);
      case 2:
        return frame(MessageType::kUpdatePriorities, "replay", numbers(random() % 16, 2.0f), i);
      case 3:
        return frame(MessageType::kPublish, "policy", numbers(std::uint64_t{0}, random()), i);
      case 4:
        return frame(MessageType::kFetch, "policy", numbers(random() % 4), i);
      case 5:
        return frame(MessageType::kPut, "episodes", numbers(random()), i);
      case 6:
        return frame(MessageType::kDrain, "episodes", {}, i);
      case 7:
        return frame(MessageType::kStats, "", {}, i);
      default:
        return frame(MessageType::kInsert, "replay", chunk_of(size), i);
    }
  };
  Bytes bytes;
  const std::uint64_t count = 1 + random() % 6;
  for (std::uint64_t i = 0; i < count; ++i) bytes += request(i);
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
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 20000;
  std::mt19937_64 random(20240607);
  for (int round = 0; round < rounds; ++round) {
    Bytes bytes = valid_requests(random);
    if (round % 4 == 3) {
      for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    } else if (round % 4 != 0) {
      damage(bytes, random);
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("fuzz_session: %d inputs\n", rounds);
  return 0;
}
#endif
