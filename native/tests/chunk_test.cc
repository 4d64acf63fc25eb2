#include "core/chunk.h"

#include <limits>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::small_signature;

std::vector<std::byte> letters(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST_CASE("crc32c: published check values") {
  CHECK(crc32c(letters("123456789")) == 0xe3069283);
  CHECK(crc32c(std::vector<std::byte>(32)) == 0x8a9136aa);  // RFC 3720, B.4
  CHECK(crc32c({}) == 0);
  const auto whole = letters("123456789");
  const std::span<const std::byte> view(whole);
  CHECK(crc32c(view.subspan(4), crc32c(view.first(4))) == 0xe3069283);
}

TEST_CASE("chunk: layout worked by hand") {
  // 3 steps, 5 rows of 8 bytes, actions of 4 bytes: columns of 12 bytes take 16.
  const ChunkLayout layout = ChunkLayout::of(small_signature(), 3, 5);
  CHECK(layout.observation == 64);
  CHECK(layout.action == 104);
  CHECK(layout.policy_version == 120);  // 24 bytes
  CHECK(layout.first == 144);
  CHECK(layout.last == 160);
  CHECK(layout.reward == 176);
  CHECK(layout.discount == 192);
  CHECK(layout.priority == 208);
  CHECK(layout.bytes == 224);
}

TEST_CASE("chunk: a good one passes, at any alignment") {
  const auto bytes = PlainChunk::of(3, 1).bytes(small_signature());
  CHECK(check_chunk(small_signature(), bytes).steps == 3);
  std::vector<std::byte> shifted(bytes.size() + 1);
  std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
  CHECK(check_chunk(small_signature(), std::span(shifted).subspan(1)).rows == 4);
}

TEST_CASE("chunk: each field that does not fit is named") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto refused = [](const char* field, auto&& change) {
    PlainChunk chunk = PlainChunk::of(3, 1);
    change(chunk);
    check_error(ErrorKind::kChunkRefused, field,
                [&] { check_chunk(small_signature(), chunk.bytes(small_signature())); });
  };
  refused("chunk.first[1]: 4", [](PlainChunk& c) { c.first[1] = 4; });
  refused("chunk.last[2]: 4", [](PlainChunk& c) { c.last[2] = 4; });
  refused("chunk.reward[0]", [=](PlainChunk& c) { c.reward[0] = kInfinity; });
  refused("chunk.discount[1]", [](PlainChunk& c) { c.discount[1] = 1.5f; });
  refused("chunk.discount[1]", [](PlainChunk& c) { c.discount[1] = std::nanf(""); });
  refused("chunk.priority[0]", [](PlainChunk& c) { c.priority[0] = -0.5f; });
  refused("chunk.priority[2]", [=](PlainChunk& c) { c.priority[2] = kInfinity; });
  PlainChunk unknown = PlainChunk::of(3, kUnknownPriority);
  CHECK_NOTHROW(check_chunk(small_signature(), unknown.bytes(small_signature())));
}

TEST_CASE("chunk: inconsistent headers are refused") {
  const auto refused = [](const char* field, auto&& change) {
    auto bytes = PlainChunk::of(3, 1).bytes(small_signature());
    ChunkHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    change(header);
    std::memcpy(bytes.data(), &header, sizeof(header));
    check_error(ErrorKind::kChunkRefused, field, [&] { check_chunk(small_signature(), bytes); });
  };
  refused("chunk.magic", [](ChunkHeader& h) { h.magic = 1; });
  refused("chunk.mark: 7, but it must be 0", [](ChunkHeader& h) { h.mark = 7; });
  refused("chunk.steps", [](ChunkHeader& h) { h.steps = 0; });
  refused("chunk.steps", [](ChunkHeader& h) { h.steps = kMaxSteps + 1; });
  refused("chunk.rows", [](ChunkHeader& h) { h.rows = 0; });
  refused("chunk.rows", [](ChunkHeader& h) { h.rows = std::numeric_limits<std::uint32_t>::max(); });
  refused("chunk.bytes", [](ChunkHeader& h) { h.rows = 5; });
  refused("chunk.bytes", [](ChunkHeader& h) { h.bytes += 8; });
  check_error(ErrorKind::kChunkRefused, "chunk.bytes", [] { check_chunk(small_signature(), {}); });
  const auto bytes = PlainChunk::of(3, 1).bytes(small_signature());
  check_error(ErrorKind::kChunkRefused, "chunk.", [&] { check_chunk({{"float64", {2}}, {"int32", {}}, 1}, bytes); });
}

TEST_CASE("chunk: the checksum covers everything but itself and the priorities") {
  const auto bytes = PlainChunk::of(3, 1).bytes(small_signature());
  const std::uint32_t checksum = chunk_checksum(small_signature(), bytes);
  const std::size_t priorities = ChunkLayout::of(small_signature(), 3, 4).priority;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    CAPTURE(i);
    if (i >= 16 && i < 24) continue;  // steps and rows say where the priorities begin: check_chunk's business
    auto changed = bytes;
    changed[i] ^= std::byte{0x10};
    const bool covered = (i < 4 || i >= 8) && i < priorities;
    REQUIRE((chunk_checksum(small_signature(), changed) != checksum) == covered);
  }
  auto other = *reinterpret_cast<const ChunkHeader*>(bytes.data());
  other.first_key = 77;
  const std::uint32_t expected = chunk_checksum(small_signature(), other, bytes);
  auto stored = bytes;
  std::memcpy(stored.data(), &other, sizeof(other));
  CHECK(chunk_checksum(small_signature(), stored) == expected);
  CHECK(expected != checksum);
}

// Random damage is either refused or leaves a chunk whose every row can be read; the sanitizers watch.
TEST_CASE("chunk: mutated and truncated bytes are refused or safe to read") {
  std::mt19937 random(5);
  const Signature signature = small_signature();
  int passed = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = PlainChunk::of(1 + random() % 5, 1).bytes(signature);
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i) {
      const std::size_t at = random() % 3 == 0 ? random() % 40 : random() % bytes.size();
      bytes[at] = random() % 2 == 0 ? std::byte(random()) : bytes[at] ^ std::byte(1u << random() % 8);
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    try {
      const ChunkHeader header = check_chunk(signature, bytes);
      const ChunkLayout layout = ChunkLayout::of(signature, header.steps, header.rows);
      REQUIRE(layout.bytes == bytes.size());
      for (std::uint32_t t = 0; t < header.steps; ++t) {
        std::uint32_t row;
        std::memcpy(&row, bytes.data() + layout.last + 4 * t, 4);
        float value;
        std::memcpy(&value, bytes.data() + layout.observation + 8 * std::size_t{row} + 4, 4);
        REQUIRE(row < header.rows);
      }
      ++passed;
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::kChunkRefused);
    }
  }
  CHECK(passed > 1000);  // damage to rows, actions, versions and the like is no error
}

}  // namespace
}  // namespace headrace
