// Which transition lies where: chunks in an arena, and for each slot the chunk that holds its transition.
//
// A transition's key is its number since the table began; key % capacity is its slot. The keys stored are
// [oldest_key, next_key). Eviction has two halves: forget_oldest() takes the oldest chunk out of that range, so that it
// is not sampled any more; release_forgotten() frees its bytes once no thread reads them.
//
// Threading: not thread-safe. The owner (Table) guards it; stored chunks and their slots may be read by other threads
// until they are released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/arena.h"
#include "core/chunk.h"
#include "core/huge_array.h"
#include "core/signature.h"

namespace headrace {

class Transitions {
 public:
  // Takes up the chunks that a file at `path` holds: the newest, where they are more than `capacity` transitions.
  // Throws as Arena, and kMismatch where one chunk alone is more than `capacity`.
  Transitions(const Signature& signature, std::uint64_t capacity, std::size_t capacity_bytes, const std::string& path);

  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t oldest_key() const { return oldest_key_; }
  std::uint64_t next_key() const { return next_key_; }
  std::uint64_t size() const { return next_key_ - oldest_key_; }
  std::uint64_t chunks() const { return chunks_; }
  bool holds(std::uint64_t key) const { return key >= oldest_key_ && key < next_key_; }
  std::uint64_t slot_of(std::uint64_t key) const { return key % capacity_; }

  const Arena& arena() const { return arena_; }
  std::size_t row_bytes() const { return row_bytes_; }        // of one frame
  std::size_t action_bytes() const { return action_bytes_; }  // of one action

  // The chunk that holds the transition of a slot, in use or forgotten and not yet released.
  const ChunkHeader& chunk_at(std::uint64_t slot) const { return header_at(places_[slot]); }
  ChunkHeader& chunk_at(std::uint64_t slot) { return *reinterpret_cast<ChunkHeader*>(arena_.at(places_[slot])); }
  void prefetch(std::uint64_t slot) const { __builtin_prefetch(&places_[slot]); }
  const float* priorities_of(const ChunkHeader& header) const {  // [T]
    return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(&header) + layout_of(header).priority);
  }
  float* priorities_of(ChunkHeader& header) { return const_cast<float*>(std::as_const(*this).priorities_of(header)); }
  ChunkLayout layout_of(const ChunkHeader& header) const {
    return ChunkLayout::of(row_bytes_, action_bytes_, header.steps, header.rows);
  }

  // Forgets the oldest chunk and returns its number of steps; its first key was oldest_key().
  std::uint32_t forget_oldest();
  void release_forgotten();

  // Room in the arena for a chunk, or nullopt: forget and release more. Slots must be free before publish().
  std::optional<std::size_t> reserve(std::size_t bytes) { return arena_.reserve(bytes); }
  // Copies a chunk into reserved bytes as of key next_key(), unknown priorities replaced, and for a file sets the
  // checksum last, so that a file never holds a half-written chunk with a valid checksum, or keys that the sender
  // chose.
  const ChunkHeader& write(std::size_t offset, std::span<const std::byte> chunk, float unknown_priority);
  // Makes what write() wrote part of the range; returns its first key.
  std::uint64_t publish(std::size_t offset);

  // For an empty table: the key and the place of the chunk that comes next.
  void start_at(std::uint64_t key, std::size_t offset);
  void start_over() {  // for an empty table: as if it never had held anything, its file too
    arena_.wipe();
    start_at(0, 0);
  }
  std::size_t place_of_oldest() const;

 private:
  const ChunkHeader& header_at(std::size_t offset) const {
    return *reinterpret_cast<const ChunkHeader*>(arena_.at(offset));  // chunks start at cache lines
  }
  void adopt(std::size_t offset);  // gives a chunk in the arena its slots

  Signature signature_;
  std::size_t row_bytes_;
  std::size_t action_bytes_;
  std::uint64_t capacity_;
  Arena arena_;
  HugeArray<std::size_t> places_;   // by slot: arena offset of the chunk
  std::uint64_t released_key_ = 0;  // bytes of keys from here on are still there
  std::uint64_t oldest_key_ = 0;
  std::uint64_t next_key_ = 0;
  std::uint64_t chunks_ = 0;
};

}  // namespace headrace
