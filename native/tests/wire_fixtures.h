// What the tests of session, loop and client share: a small table, chunks for it, frames by hand.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/chunk.h"
#include "core/chunk_writer.h"
#include "core/huge_array.h"
#include "core/server.h"
#include "wire/frame.h"
#include "wire/session.h"
#include "wire/shared_region.h"

namespace headrace::testing {

using Bytes = std::vector<std::byte>;

inline Signature small_signature() { return {{"float32", {2}}, {"int64", {}}, 1}; }

inline TableOptions small_table() {
  TableOptions options;
  options.signature = small_signature();
  options.capacity = 256;
  options.seed = 1;
  return options;
}

// A table that holds inserts back once it is 16 transitions ahead of the samples.
inline TableOptions limited_table() {
  auto options = small_table();
  options.limiter = {.samples_per_insert = 1, .tolerance = 16, .min_size = 1};
  return options;
}

// One episode of `steps` steps that terminates: observations (i, -i), actions i, rewards i + 0.5.
inline Bytes chunk_of(std::uint32_t steps) {
  ChunkWriter writer({.signature = small_signature(), .n_step = 1, .discount = 0.9, .chunk_steps = steps, .actor = 7});
  const auto observation = [](std::uint32_t i) { return std::vector<float>{float(i), -float(i)}; };
  writer.start(observation(0).data());
  for (std::uint32_t i = 0; i < steps; ++i) {
    const std::int64_t action = i;
    writer.append(&action, float(i) + 0.5f, observation(i + 1).data(), i + 1 == steps, false);
  }
  return writer.take().at(0);
}

// The same, as the `sequence`-th of a writer.
inline Bytes chunk_of(std::uint32_t steps, std::uint64_t writer, std::uint64_t sequence) {
  auto chunk = chunk_of(steps);
  ChunkHeader header;
  std::memcpy(&header, chunk.data(), sizeof(header));
  header.writer = writer;
  header.sequence = sequence;
  std::memcpy(chunk.data(), &header, sizeof(header));
  return chunk;
}

inline Bytes& operator+=(Bytes& bytes, std::span<const std::byte> more) {
  const std::size_t before = bytes.size();
  bytes.resize(before + more.size());
  std::ranges::copy(more, bytes.begin() + static_cast<std::ptrdiff_t>(before));
  return bytes;
}

inline Bytes frame(MessageType type, std::string_view name, std::span<const std::byte> payload = {},
                   std::uint64_t request = 1) {
  return encode_request(type, request, name, payload, 0);
}

inline Bytes insert_payload(std::span<const std::byte> chunk, std::int64_t wait_milliseconds = -1) {
  Bytes payload;
  append_number(payload, wait_milliseconds);
  payload += chunk;
  return payload;
}

inline Bytes sample_payload(std::uint32_t size, double importance_exponent, std::int64_t wait_milliseconds) {
  Bytes payload;
  append_number(payload, size);
  append_number(payload, importance_exponent);
  append_number(payload, wait_milliseconds);
  return payload;
}

template <typename... Numbers>
Bytes numbers(Numbers... values) {
  Bytes bytes;
  (append_number(bytes, values), ...);
  return bytes;
}

template <typename T>
T number_at(std::span<const std::byte> bytes, std::size_t offset = 0) {
  return BodyReader(bytes.subspan(offset)).number<T>("number");
}

inline Bytes sample_shared_payload(std::uint32_t index, std::uint32_t size, double importance_exponent,
                                   std::int64_t wait_milliseconds) {
  auto payload = numbers(index);
  payload += sample_payload(size, importance_exponent, wait_milliseconds);
  return payload;
}

inline Bytes put_payload(std::string_view message, std::uint64_t writer = 0, std::uint64_t sequence = 0) {
  auto payload = numbers(writer, sequence);
  payload += as_bytes(message);
  return payload;
}

// A whole blob in one part.
inline Bytes publish_payload(std::uint64_t version, std::span<const std::byte> blob) {
  auto payload = numbers(version, std::uint64_t{blob.size()}, std::uint64_t{0});
  payload += blob;
  return payload;
}

inline Bytes fetch_payload(std::uint64_t newer_than, std::uint64_t offset = 0) { return numbers(newer_than, offset); }

struct Reply {
  FrameHeader header;
  Bytes body;
  std::string text() const { return std::string(as_text(body)); }
};

// Splits a stream of replies; throws where it does not consist of whole frames.
inline std::vector<Reply> replies_in(std::span<const std::byte> bytes) {
  std::vector<Reply> replies;
  for (BodyReader reader(bytes); !reader.empty();) {
    const auto header = decode_header(reader.bytes(kFrameHeaderBytes, "header").first<kFrameHeaderBytes>(), Limits());
    const auto body = reader.bytes(header.length, "body");
    replies.push_back({header, Bytes(body.begin(), body.end())});
  }
  return replies;
}

inline Session::Time later(std::int64_t milliseconds) {
  return Session::Time() + std::chrono::milliseconds(milliseconds);
}

inline Bytes take_output(Session& session, Session::Time now = later(0)) {
  Bytes bytes;
  for (auto buffers = session.output(); !buffers.empty(); buffers = session.output()) {
    const auto front = buffers.front();
    bytes += front;
    session.consumed(front.size(), now);
  }
  return bytes;
}

// Puts bytes in until the session takes no more; returns how many it took.
inline std::size_t feed(Session& session, std::span<const std::byte> bytes, Session::Time now = later(0)) {
  std::size_t taken = 0;
  while (taken < bytes.size() && session.wants_input()) {
    const auto space = session.prepare();
    const std::size_t count = std::min(space.size(), bytes.size() - taken);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(taken), count, space.begin());
    session.commit(count, now);
    taken += count;
  }
  return taken;
}

inline std::vector<Reply> ask(Session& session, std::span<const std::byte> bytes) {
  feed(session, bytes);
  return replies_in(take_output(session));
}

// Shared memory that is not shared with anyone.
class FakeRegion : public SharedRegion {
 public:
  static constexpr int kDescriptor = 1234;

  explicit FakeRegion(std::uint64_t bytes) : memory_(bytes) {}
  std::span<std::byte> bytes() override { return {memory_.data(), memory_.size()}; }
  int descriptor() const override { return kDescriptor; }

 private:
  HugeArray<std::byte> memory_;
};

inline SessionOptions with_limits(Limits limits) {
  SessionOptions options;
  options.limits = limits;
  return options;
}

// `made`: where the region, once there is one, is seen from outside.
inline SessionOptions with_region(std::shared_ptr<SharedRegion>& made, Limits limits = {}) {
  auto options = with_limits(limits);
  options.make_region = [&made](std::uint64_t bytes) { return made = std::make_shared<FakeRegion>(bytes); };
  return options;
}

// A session whose peer has just connected, at later(0).
class OpenSession : public Session {
 public:
  explicit OpenSession(Server& server, SessionOptions options = {}) : Session(server, std::move(options), later(0)) {}
  OpenSession(Server& server, Limits limits) : OpenSession(server, with_limits(limits)) {}
};

inline std::uint8_t status_of(ErrorKind kind) { return static_cast<std::uint8_t>(kind); }

}  // namespace headrace::testing
