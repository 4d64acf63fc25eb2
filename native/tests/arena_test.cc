#include "core/arena.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>

#include "arena_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::check_sound;
using fixtures::Content;
using fixtures::content_of;
using fixtures::kHeaderBytes;
using fixtures::MemoryFile;
using fixtures::PlainChunk;
using fixtures::priorities_of;
using fixtures::Ring;
using fixtures::ScratchFolder;
using fixtures::small_signature;
using fixtures::transitions_of;

TEST_CASE("arena: chunks never overlap and are complete") {
  Ring ring(4000);
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    ring.push(1 + random() % 20);
    std::size_t used = 0;
    std::vector<bool> taken(ring.arena.capacity_bytes() / Arena::kAlignment);
    for (const auto& chunk : ring.stored) {
      const ChunkHeader& header = ring.header_at(chunk.offset);
      REQUIRE(header.first_key == chunk.first_key);
      REQUIRE(header.checksum ==
              chunk_checksum(small_signature(), header, {ring.arena.at(chunk.offset), header.bytes}));
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

TEST_CASE("arena: a reopened file has its chunks, at every position of the ring") {
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

constexpr std::size_t kFlipped = 10'000;  // bytes of a ring

TEST_CASE("arena: a flipped bit loses only the chunk that contains it, at any position") {
  for (const int pushes : {9, 30, 47}) {  // not full yet, and wrapped at two places
    const MemoryFile file;
    Content content;
    std::deque<Ring::Stored> stored;
    std::uint64_t next_key = 0;
    {
      Ring ring(kFlipped, file.path());
      for (int i = 0; i < pushes; ++i) ring.push(3 + static_cast<std::uint32_t>(i) % 9, static_cast<float>(i));
      content = content_of(ring);
      stored = ring.stored;
      next_key = ring.next_key;
    }
    REQUIRE(stored.size() > 5);
    const std::string image = file.bytes();
    const auto check = [&](std::size_t byte, std::size_t hit) {  // stored.size(): no chunk
      CAPTURE(pushes);
      CAPTURE(byte);
      CAPTURE(hit);
      std::string changed = image;
      changed[byte] ^= static_cast<char>(1 << byte % 8);
      const MemoryFile damaged(changed);
      Content left = content;
      if (hit < left.size()) left.erase(left.begin() + static_cast<std::ptrdiff_t>(hit));
      const std::uint64_t lost = hit < content.size() ? content[hit].second : 0;
      std::deque<Ring::Stored> first;
      {
        Ring ring(kFlipped, damaged.path());
        Content found = content_of(ring);
        const std::uint64_t transitions = transitions_of(found);
        std::erase_if(found, [&](const auto& chunk) { return std::ranges::count(content, chunk) == 0; });
        REQUIRE(found == left);
        REQUIRE(transitions <= transitions_of(content));  // an evicted chunk may take the place of the damaged one
        REQUIRE(ring.arena.lost() == lost);
        REQUIRE(ring.next_key >= next_key);
        REQUIRE((lost > 0 || ring.stored == stored));
        check_sound(ring);
        first = ring.stored;
      }
      Ring ring(kFlipped, damaged.path());
      REQUIRE(ring.stored == first);  // and so it stays
      REQUIRE(ring.arena.lost() == 0);
      for (int i = 0; i < 60; ++i) ring.push(5, 100 + static_cast<float>(i));  // over the gap, more than once around
      check_sound(ring);
      REQUIRE(ring.stored.size() > 10);
    };
    for (std::size_t byte = 0; byte < 48; ++byte) check(byte, stored.size());
    for (std::size_t byte = 4096; byte < 4096 + 48; ++byte) check(byte, stored.size());
    for (const std::size_t hit : {std::size_t{0}, stored.size() / 2, stored.size() - 1}) {
      const std::size_t begin = kHeaderBytes + stored[hit].offset;
      const std::size_t priorities = priorities_of(stored[hit]);
      for (std::size_t byte = 0; byte < priorities; byte += byte < 64 ? 1 : 13) check(begin + byte, hit);
    }
  }
}

TEST_CASE("arena: evicted chunks are not recovered, even if they are intact") {
  const MemoryFile file;
  Content content;
  {
    Ring ring(kFlipped, file.path());
    for (int i = 0; i < 200; ++i) {
      ring.push(i % 7 == 0 ? 90u : 3u, static_cast<float>(i));  // the long ones leave room before the end of the ring
      while (ring.stored.size() > 4) {                          // as a table does whose slots are short
        ring.arena.release_oldest();
        ring.stored.pop_front();
      }
    }
    content = content_of(ring);
  }
  std::string image = file.bytes();
  {
    const MemoryFile same(image);
    const Ring ring(kFlipped, same.path());
    CHECK(content_of(ring) == content);
    CHECK(ring.arena.lost() == 0);
  }
  image[8] ^= 1;  // the header no longer says which is the oldest: the newest chunk does
  const MemoryFile damaged(image);
  const Ring ring(kFlipped, damaged.path());
  const Content found = content_of(ring);
  CHECK(found.size() <= content.size() + 1);  // and one that was there when the newest was written
  CHECK(Content(found.end() - static_cast<std::ptrdiff_t>(content.size()), found.end()) == content);
  CHECK(ring.arena.lost() == 0);
}

TEST_CASE("arena: a chunk within another one's priorities, as a client may send it, is not taken for a stored one") {
  const MemoryFile file;
  Content content;
  {
    Ring ring(kFlipped, file.path());
    ring.push(5, 1.0f);
    ring.push(150, 2.0f);
    ring.push(5, 3.0f);
    content = content_of(ring);
    auto inner = PlainChunk::of(1, 1, 4.0f).bytes(small_signature());
    auto* header = reinterpret_cast<ChunkHeader*>(inner.data());
    header->first_key = header->oldest_key = std::uint64_t{1} << 40;
    header->checksum = chunk_checksum(small_signature(), inner);
    const ChunkHeader& outer = ring.header_at(ring.stored[1].offset);
    const std::size_t priorities =
        ring.stored[1].offset + ChunkLayout::of(small_signature(), outer.steps, outer.rows).priority;
    const std::size_t place = (priorities + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    REQUIRE(place + inner.size() <= ring.stored[1].offset + outer.bytes);
    std::memcpy(ring.arena.at(place), inner.data(), inner.size());
  }
  const Ring again(kFlipped, file.path());
  CHECK(content_of(again) == content);
  CHECK(again.next_key == 160);
  CHECK(again.arena.lost() == 0);
}

TEST_CASE(
    "arena: priorities that a client made into thousands of headers of long chunks cost no time at the next start") {
  constexpr std::size_t kRing = std::size_t{16} << 20;
  constexpr std::uint32_t kSteps = 100'000;
  const MemoryFile file;
  {
    Ring ring(kRing, file.path());
    ring.push(kSteps, 1.0f);
    std::byte* const stored = ring.arena.at(ring.stored[0].offset);
    ChunkHeader inner;
    inner.steps = 1;
    inner.rows = static_cast<std::uint32_t>((kRing / 2) / small_signature().observation.bytes());
    inner.bytes = ChunkLayout::of(small_signature(), 1, inner.rows).bytes;
    const std::size_t first = (priorities_of(ring.stored[0]) / Arena::kAlignment + 1) * Arena::kAlignment;
    for (std::size_t at = first; at + sizeof(inner) <= ring.header_at(ring.stored[0].offset).bytes;
         at += sizeof(inner)) {
      std::memcpy(stored + at, &inner, sizeof(inner));
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  const Ring again(kRing, file.path());
  CHECK(content_of(again) == Content{{1.0f, kSteps}});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));  // a checksum for each took 12 s
}

TEST_CASE("arena: a kill during renumbering of recovered chunks loses nothing more") {
  const MemoryFile file;
  Content left;
  std::deque<Ring::Stored> stored;
  {
    Ring ring(kFlipped, file.path());
    for (int i = 0; i < 40; ++i) ring.push(5, static_cast<float>(i));
    stored = ring.stored;
    left = content_of(ring);
  }
  std::string before = file.bytes();
  before[kHeaderBytes + stored[4].offset + 70] ^= 1;
  left.erase(left.begin() + 4);
  const MemoryFile damaged(before);
  { const Ring ring(kFlipped, damaged.path()); }
  const std::string after = damaged.bytes();
  std::sort(left.begin(), left.end());
  const auto check = [&](const std::string& image) {
    const MemoryFile file_of_image(image);
    const Ring ring(kFlipped, file_of_image.path());
    Content found = content_of(ring);
    std::sort(found.begin(), found.end());
    REQUIRE(found == left);
    check_sound(ring);
  };
  std::string image = before;
  const auto take = [&](std::size_t at, std::size_t size) { image.replace(at, size, after, at, size); };
  take(8, 16);
  image.replace(8, 8, 8, '\0');
  for (const auto& chunk : stored) {  // in order, as when it is killed
    check(image);
    take(kHeaderBytes + chunk.offset, sizeof(ChunkHeader));
  }
  check(image);
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {  // and in any, as when power is lost
    image = before;
    if (random() % 2 == 0) take(8, 16);
    for (const auto& chunk : stored) {
      if (random() % 2 == 0) take(kHeaderBytes + chunk.offset, sizeof(ChunkHeader));
    }
    check(image);
  }
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
    CHECK(ring.arena.lost() == 0);
  }
}

TEST_CASE("arena: killed while a chunk is copied over older ones, no chunk counts as lost") {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    const MemoryFile file;
    std::deque<Ring::Stored> stored;
    std::uint64_t next_key = 0;
    {
      Ring ring(4000, file.path());
      for (unsigned i = 0, pushes = random() % 40; i < pushes; ++i) ring.push(1 + random() % 30);
      const auto bytes = PlainChunk::of(1 + random() % 60, 1).bytes(small_signature());
      auto offset = ring.arena.reserve(bytes.size());
      for (; !offset; offset = ring.arena.reserve(bytes.size())) {
        ring.arena.release_oldest();
        ring.stored.pop_front();
      }
      std::memset(ring.arena.at(*offset), 7, random() % bytes.size());
      stored = ring.stored;
      next_key = ring.next_key;
    }
    const Ring ring(4000, file.path());
    REQUIRE(ring.stored == stored);
    REQUIRE(ring.next_key == next_key);
    REQUIRE(ring.arena.lost() == 0);
  }
}

TEST_CASE("arena: an incompatible file is refused and not changed") {
  const ScratchFolder folder;
  const std::string path = folder.file("arena");
  { Ring(4000, path).push(3); }
  const auto open = [&](const Signature& signature, std::size_t bytes) { Arena(signature, bytes, path); };
  check_error(ErrorKind::kMismatch, "capacity_bytes 8000", [&] { open(small_signature(), 8000); });
  check_error(ErrorKind::kMismatch, "stack=2", [&] { open(small_signature(2), 4000); });
  {
    const Ring holder(4000, path);
    check_error(ErrorKind::kSystem, "in use", [&] { open(small_signature(), 4000); });
    CHECK(holder.stored.size() == 1);
  }
  check_error(ErrorKind::kSystem, "/nowhere/arena", [] { Arena(small_signature(), 4000, "/nowhere/arena"); });
  for (const std::streamoff at : {40, 4096 + 40, 40, 4096 + 40}) {  // one copy of the header is enough
    const Arena arena(small_signature(), 4000, path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.put('X');
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(40);
    file.put('X');
    file.seekp(4096 + 40);
    file.put('X');
  }
  check_error(ErrorKind::kCorrupt, path, [&] { open(small_signature(), 4000); });
}

TEST_CASE("arena: files of earlier versions, which have other formats, are refused and not changed") {
  const ScratchFolder folder;
  const std::string path = folder.file("arena");
  std::string old(4096 + 4032, '\0');
  old.replace(0, 8, "HRARENA1");
  std::ofstream(path, std::ios::binary) << old;
  check_error(ErrorKind::kCorrupt, "not that of an arena of version 5", [&] { Arena(small_signature(), 4000, path); });
  std::ifstream file(path, std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == old);
}

TEST_CASE("arena: a full disk is detected at creation, and no file is left") {
  const ScratchFolder folder;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  check_error(ErrorKind::kSystem, folder.file("arena"),
              [&] { Arena(small_signature(), 2 << 20, folder.file("arena")); });
  check_error(ErrorKind::kSystem, "2105344 bytes", [&] { Arena(small_signature(), 2 << 20, folder.file("arena")); });
  std::ofstream(folder.file("empty")).close();
  check_error(ErrorKind::kSystem, "2105344 bytes", [&] { Arena(small_signature(), 2 << 20, folder.file("empty")); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  CHECK_FALSE(std::filesystem::exists(folder.file("arena")));
  CHECK(std::filesystem::file_size(folder.file("empty")) == 0);  // it was not made here
}

TEST_CASE("arena: a path that is no file is refused and stays") {
  const ScratchFolder folder;
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  check_error(ErrorKind::kSystem, "is not a regular file",
              [&] { Arena(small_signature(), 4096, folder.file("pipe")); });
  CHECK(std::filesystem::is_fifo(folder.file("pipe")));
  check_error(ErrorKind::kSystem, folder.file(""), [&] { Arena(small_signature(), 4096, folder.file("")); });
}

}  // namespace
}  // namespace headrace
