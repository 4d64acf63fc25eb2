// What the tests of the arena share: a ring of chunks that are told apart by their tags, and files in memory.
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/arena.h"
#include "core_fixtures.h"

namespace headrace::fixtures {

constexpr std::size_t kHeaderBytes = 8192;             // of a file, before its ring
constexpr std::size_t kMarkAt = 4096 + 3 * 8 + 8 + 4;  // in the copy of the header

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
    header->mark = arena.mark();
    header->checksum = chunk_checksum(small_signature(), *header, {arena.at(offset), bytes.size()});
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

// What is in a ring, as a restart must give it back: tags and steps, oldest first.
using Content = std::vector<std::pair<float, std::uint32_t>>;

inline Content content_of(const Ring& ring) {
  Content content;
  for (const auto& chunk : ring.stored) content.emplace_back(ring.tag_of(chunk.offset), chunk.steps);
  return content;
}

inline std::uint64_t transitions_of(const Content& content) {
  std::uint64_t sum = 0;
  for (const auto& [tag, steps] : content) sum += steps;
  return sum;
}

// Where the bytes begin that no checksum covers.
inline std::size_t priorities_of(const Ring::Stored& chunk) {
  return ChunkLayout::of(small_signature(), chunk.steps, chunk.steps + 1).priority;
}

// Every chunk is what was pushed under its tag, and keys follow one another up to the next.
inline void check_sound(const Ring& ring) {
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

}  // namespace headrace::fixtures
