#include "core/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

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
    }
    next_key = arena.next_key();
  }

  const ChunkHeader& header_at(std::size_t offset) const {
    return *reinterpret_cast<const ChunkHeader*>(arena.at(offset));
  }

  // Chunks are told apart by the tag that their observations carry.
  void push(std::uint32_t steps, float tag = 0) {
    const auto bytes = PlainChunk::of(steps, 1, tag).bytes(small_signature());
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
    header->oldest_key = stored.empty() ? next_key : stored.front().first_key;
    header->checksum = chunk_checksum(small_signature(), {arena.at(offset), bytes.size()});
  }

  float tag_of(std::size_t offset) const {
    float tag = 0;
    std::memcpy(&tag, arena.at(offset) + sizeof(ChunkHeader), sizeof(tag));
    return tag;
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

// What is in a ring, as a restart must give it back: tags and steps, oldest first.
using Content = std::vector<std::pair<float, std::uint32_t>>;

Content content_of(const Ring& ring) {
  Content content;
  for (const auto& chunk : ring.stored) content.emplace_back(ring.tag_of(chunk.offset), chunk.steps);
  return content;
}

// Where the bytes begin that no checksum covers.
std::size_t priorities_of(const Ring::Stored& chunk) {
  return ChunkLayout::of(small_signature(), chunk.steps, chunk.steps + 1).priority;
}

// Every chunk is what was pushed under its tag, and keys follow one another up to the next.
void check_sound(const Ring& ring) {
  std::uint64_t key = ring.stored.empty() ? ring.next_key : ring.stored.front().first_key;
  for (const auto& chunk : ring.stored) {
    REQUIRE(chunk.first_key == key);
    key += chunk.steps;
    const auto pushed = PlainChunk::of(chunk.steps, 1, ring.tag_of(chunk.offset)).bytes(small_signature());
    const std::size_t checked = priorities_of(chunk) - sizeof(ChunkHeader);
    REQUIRE(std::memcmp(ring.arena.at(chunk.offset) + sizeof(ChunkHeader), pushed.data() + sizeof(ChunkHeader),
                        checked) == 0);
  }
  REQUIRE(key == ring.next_key);
}

// A file in memory that can be opened by its path: nothing waits for a disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("arena", MFD_CLOEXEC)) { REQUIRE(descriptor_ >= 0); }
  explicit MemoryFile(const std::string& bytes) : MemoryFile() {
    REQUIRE(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  std::string bytes() const {
    std::string all(static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
    REQUIRE(pread(descriptor_, all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  int descriptor_;
};

constexpr std::size_t kHeaderBytes = 8192;
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
        REQUIRE(content_of(ring) == left);
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

// Power is lost: each page on the disk is that of the last flush or a newer one.
TEST_CASE("arena: with a mix of old and new pages, all flushed chunks that were not overwritten are recovered") {
  std::mt19937 random(6);
  std::uint64_t kept = 0, losses = 0;
  for (int life = 0; life < 60; ++life) {
    constexpr std::size_t kBytes = 64'000;
    const MemoryFile file;
    Ring ring(kBytes, file.path());
    float tag = 0;
    const auto push = [&](unsigned count) {
      for (unsigned i = 0; i < count; ++i) ring.push(1 + random() % 150, ++tag);
    };
    push(1 + random() % 100);
    const std::string flushed = file.bytes();
    std::set<float> then;
    for (const auto& chunk : ring.stored) then.insert(ring.tag_of(chunk.offset));
    push(1 + random() % (life % 2 == 0 ? 8 : 80));
    const std::string newer = file.bytes();
    std::set<float> durable;  // there all the time
    for (const auto& chunk : ring.stored) {
      if (then.contains(ring.tag_of(chunk.offset))) durable.insert(ring.tag_of(chunk.offset));
    }
    for (int i = 0; i < 50; ++i) {
      CAPTURE(life);
      CAPTURE(i);
      std::string image = flushed;
      for (std::size_t at = 0; at < image.size(); at += 4096) {
        if (random() % 2 == 0) image.replace(at, 4096, newer, at, 4096);
      }
      const MemoryFile crashed(image);
      Ring found(kBytes, crashed.path());
      check_sound(found);
      std::set<float> tags;
      for (const auto& chunk : found.stored) REQUIRE(tags.insert(found.tag_of(chunk.offset)).second);
      for (const float each : durable) REQUIRE(tags.contains(each));
      REQUIRE((found.stored.empty() || found.stored.back().first_key < found.next_key));
      kept += found.stored.size();
      losses += found.arena.lost() > 0;
      for (int more = 0; more < 20; ++more) found.push(1 + random() % 150, ++tag);
      check_sound(found);
    }
  }
  CHECK(kept > 0);
  CHECK(losses > 0);
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
  for (const std::streamoff at : {40, 4096 + 40}) {  // one copy of the header is enough
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

TEST_CASE("arena: files of versions 1 and 2, which have other formats, are refused and not changed") {
  const ScratchFolder folder;
  const std::string path = folder.file("arena");
  std::string old(4096 + 4032, '\0');
  old.replace(0, 8, "HRARENA1");
  std::ofstream(path, std::ios::binary) << old;
  check_error(ErrorKind::kCorrupt, "not that of an arena of version 3", [&] { Arena(small_signature(), 4000, path); });
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
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  CHECK_FALSE(std::filesystem::exists(folder.file("arena")));
}

}  // namespace
}  // namespace headrace
