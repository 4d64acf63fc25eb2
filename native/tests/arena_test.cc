#include "core/arena.h"

#include <sys/resource.h>

#include <csignal>
#include <deque>
#include <fstream>
#include <optional>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;

// What Table does with an arena, and no more: chunks with keys, checksummed, the oldest released when room is short.
struct Ring {
  explicit Ring(std::size_t capacity_bytes, const std::string& path = "")
      : arena(small_signature(), capacity_bytes, path) {
    for (const std::size_t offset : arena.recovered()) {
      const auto& header = header_at(offset);
      stored.push_back({offset, header.first_key, header.steps});
      next_key = header.first_key + header.steps;
    }
  }

  const ChunkHeader& header_at(std::size_t offset) const {
    return *reinterpret_cast<const ChunkHeader*>(arena.at(offset));
  }

  void push(std::uint32_t steps) {
    const auto bytes = PlainChunk::of(steps, 1).bytes(small_signature());
    auto offset = arena.reserve(bytes.size());
    for (; !offset; offset = arena.reserve(bytes.size())) {
      REQUIRE_FALSE(stored.empty());
      arena.release_oldest();
      stored.pop_front();
    }
    write(*offset, bytes);
    arena.commit(*offset, bytes.size());
    stored.push_back({*offset, next_key, steps});
    next_key += steps;
  }

  void write(std::size_t offset, const std::vector<std::byte>& bytes) {
    auto* header = reinterpret_cast<ChunkHeader*>(arena.at(offset));
    std::memcpy(arena.at(offset), bytes.data(), bytes.size());
    header->first_key = next_key;
    header->checksum = chunk_checksum(small_signature(), {arena.at(offset), bytes.size()});
  }

  struct Stored {
    std::size_t offset;
    std::uint64_t first_key;
    std::uint32_t steps;
    bool operator==(const Stored&) const = default;
  };
  Arena arena;
  std::deque<Stored> stored;
  std::uint64_t next_key = 0;
};

TEST_CASE("arena: chunks never overlap, and all of them are whole") {
  Ring ring(4000);
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    ring.push(1 + random() % 20);
    std::size_t used = 0;
    std::vector<bool> taken(ring.arena.capacity_bytes() / Arena::kAlignment);
    for (const auto& chunk : ring.stored) {
      const ChunkHeader& header = ring.header_at(chunk.offset);
      REQUIRE(header.first_key == chunk.first_key);
      REQUIRE(header.checksum == chunk_checksum(small_signature(), {ring.arena.at(chunk.offset), header.bytes}));
      for (std::size_t at = chunk.offset; at < chunk.offset + header.bytes; at += Arena::kAlignment) {
        REQUIRE_FALSE(taken.at(at / Arena::kAlignment));
        taken[at / Arena::kAlignment] = true;
        used += Arena::kAlignment;
      }
    }
    REQUIRE(ring.arena.used_bytes() == used);
  }
  CHECK_FALSE(ring.arena.persistent());
}

TEST_CASE("arena: a file gives back what it held, at every point of the ring") {
  const ScratchFolder folder;
  std::mt19937 random(3);
  std::deque<Ring::Stored> stored;
  for (int life = 0; life < 60; ++life) {
    Ring ring(4000, folder.file("arena"));
    REQUIRE(ring.stored == stored);
    for (unsigned i = 0, pushes = random() % 9; i < pushes; ++i) ring.push(1 + random() % 12);
    stored = ring.stored;
  }
  CHECK(stored.size() > 3);
}

TEST_CASE("arena: a torn chunk and everything after it is dropped, and its keys are used again") {
  const ScratchFolder folder;
  std::size_t damaged = 0;
  {
    Ring ring(10'000, folder.file("arena"));
    for (int i = 0; i < 5; ++i) ring.push(4);
    damaged = ring.stored[3].offset;
    ring.arena.at(damaged)[80] ^= std::byte{1};  // in its observations
  }
  {
    Ring ring(10'000, folder.file("arena"));
    REQUIRE(ring.stored.size() == 3);
    CHECK(ring.next_key == 12);
    ring.push(4);  // over the torn one; the fifth chunk, key 16, still lies behind it
    CHECK(ring.stored.back().offset == damaged);
  }
  Ring ring(10'000, folder.file("arena"));
  CHECK(ring.stored.size() == 4);  // the fifth belongs to an older life
  CHECK(ring.next_key == 16);
}

TEST_CASE("arena: killed while a chunk is copied") {
  const ScratchFolder folder;
  const auto bytes = PlainChunk::of(4, 1).bytes(small_signature());
  for (std::size_t written = 0; written <= bytes.size(); written += 8) {
    CAPTURE(written);
    const std::string path = folder.file("arena" + std::to_string(written));
    {
      Ring ring(10'000, path);
      ring.push(4);
      const auto offset = ring.arena.reserve(bytes.size());
      REQUIRE(offset);
      std::vector<std::byte> whole(bytes.size());
      ring.write(*offset, bytes);
      std::memcpy(whole.data(), ring.arena.at(*offset), whole.size());
      std::memset(ring.arena.at(*offset), 0, whole.size());
      std::memcpy(ring.arena.at(*offset), whole.data(), written);
    }
    const Ring ring(10'000, path);
    const std::size_t priorities = ChunkLayout::of(small_signature(), 4, 5).priority;
    // The priorities are zero where they were not written, which is a priority too: such a chunk is whole.
    CHECK(ring.stored.size() == (written >= priorities ? 2 : 1));
  }
}

TEST_CASE("arena: a file is refused where it does not fit, and left alone") {
  const ScratchFolder folder;
  const std::string path = folder.file("arena");
  { Ring(4000, path).push(3); }
  const auto open = [&](const Signature& signature, std::size_t bytes) { Arena(signature, bytes, path); };
  check_error(ErrorKind::kRefused, "capacity_bytes 8000", [&] { open(small_signature(), 8000); });
  check_error(ErrorKind::kRefused, "stack=2", [&] { open(small_signature(2), 4000); });
  {
    const Ring holder(4000, path);
    check_error(ErrorKind::kSystem, "in use", [&] { open(small_signature(), 4000); });
    CHECK(holder.stored.size() == 1);
  }
  check_error(ErrorKind::kSystem, "/nowhere/arena", [] { Arena(small_signature(), 4000, "/nowhere/arena"); });
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('X');
  }
  check_error(ErrorKind::kCorrupt, path, [&] { open(small_signature(), 4000); });
}

TEST_CASE("arena: a file of version 1, whose chunks had one policy version each, is refused") {
  const ScratchFolder folder;
  const std::string path = folder.file("arena");
  { Ring(4000, path).push(3); }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    std::vector<char> header(4096);
    file.read(header.data(), 4096);
    const std::uint32_t version = 1;
    std::memcpy(header.data() + 20, &version, sizeof(version));
    const std::uint32_t checksum = crc32c(std::as_bytes(std::span(header)).subspan(20));
    std::memcpy(header.data() + 16, &checksum, sizeof(checksum));
    file.seekp(0);
    file.write(header.data(), 4096);
  }
  check_error(ErrorKind::kCorrupt, "not that of an arena of version 2", [&] { Arena(small_signature(), 4000, path); });
}

TEST_CASE("arena: no space is found out at creation, and no file stays behind") {
  const ScratchFolder folder;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  check_error(ErrorKind::kSystem, folder.file("arena"),
              [&] { Arena(small_signature(), 2 << 20, folder.file("arena")); });
  check_error(ErrorKind::kSystem, "2101248 bytes", [&] { Arena(small_signature(), 2 << 20, folder.file("arena")); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  CHECK_FALSE(std::filesystem::exists(folder.file("arena")));
}

}  // namespace
}  // namespace headrace
