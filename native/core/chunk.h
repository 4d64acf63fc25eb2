// A chunk: a run of steps of one episode of one environment. The unit that actors send, the server stores and
// the file keeps; the bytes are the same in all three places.
//
//   ChunkHeader (64 bytes)
//   observation    [M, *O]  each frame once, with the history that the first stack and the lookahead that the last
//                           n-step target need
//   action         [T, *A]
//   policy_version [T] u64  of the policy that chose a_t
//   first          [T] u32  row of the newest frame of s_t
//   last           [T] u32  row of the newest frame of s_{t+n}
//   reward         [T] f32  n-step return  R = sum_{i<n} gamma^i r_{t+i}
//   discount       [T] f32  gamma^n, or 0 where the episode terminated inside the n steps; truncation bootstraps
//   priority       [T] f32  |TD error|, or kUnknownPriority: takes the largest priority in the table
//
// Sections start at multiples of 8 bytes, little-endian. The stack of row r is rows r-K+1 .. r, where rows before
// row 0 read as row 0: an episode's first frame repeats, and a later chunk carries its history, so nothing but
// the first rows of an episode is ever clamped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/signature.h"

namespace headrace {

inline constexpr float kUnknownPriority = -1.0f;
inline constexpr std::uint32_t kChunkMagic = 0x32435248;  // "HRC2": of version 2
inline constexpr std::uint32_t kMaxSteps = 1u << 20;

struct ChunkHeader {
  std::uint32_t magic = kChunkMagic;
  // CRC-32C of header and sections, but for `checksum` itself and the priorities; 0 in transit, set in a file
  std::uint32_t checksum = 0;
  std::uint64_t bytes = 0;      // whole chunk, header included; a multiple of 8
  std::uint32_t steps = 0;      // T
  std::uint32_t rows = 0;       // M
  std::uint64_t first_key = 0;  // key of the first transition; set when stored
  std::uint32_t actor = 0;
  std::uint32_t mark = 0;        // that of the file which the chunk is stored in; 0 in transit
  std::uint64_t oldest_key = 0;  // the oldest that the table kept when it stored this chunk; set when stored
  std::uint64_t writer = 0;      // the sender, a random number; 0: every chunk is new
  std::uint64_t sequence = 0;    // of the writer's chunks, rising: one that is sent again is stored once
};
static_assert(sizeof(ChunkHeader) == 64);

// Byte offsets of a chunk's sections, from its header and the signature, or from the bytes of one row and one action.
struct ChunkLayout {
  std::size_t observation, action, policy_version, first, last, reward, discount, priority, bytes;

  static ChunkLayout of(const Signature& signature, std::uint32_t steps, std::uint32_t rows) {
    return of(signature.observation.bytes(), signature.action.bytes(), steps, rows);
  }
  static constexpr ChunkLayout of(std::size_t row_bytes, std::size_t action_bytes, std::uint32_t steps,
                                  std::uint32_t rows) {
    const auto round8 = [](std::size_t value) { return (value + 7) & ~std::size_t{7}; };
    const std::size_t column = round8(std::size_t{steps} * 4);
    ChunkLayout layout{};
    layout.observation = sizeof(ChunkHeader);
    layout.action = layout.observation + round8(std::size_t{rows} * row_bytes);
    layout.policy_version = layout.action + round8(std::size_t{steps} * action_bytes);
    layout.first = layout.policy_version + std::size_t{steps} * sizeof(std::uint64_t);
    layout.last = layout.first + column;
    layout.reward = layout.last + column;
    layout.discount = layout.reward + column;
    layout.priority = layout.discount + column;
    layout.bytes = layout.priority + column;
    return layout;
  }
};

// Checks an untrusted chunk against a signature: magic, mark, sizes (with no overflow), 1 <= T <= kMaxSteps, first
// and last within M, finite reward, discount in [0, 1], priority finite and >= 0 or kUnknownPriority. Throws
// kChunkRefused naming the field, the value and what is required. `bytes` needs no alignment.
ChunkHeader check_chunk(const Signature& signature, std::span<const std::byte> bytes);
// The same, but for the priorities and the mark: for a file, where no checksum covers the priorities.
ChunkHeader check_transitions(const Signature& signature, std::span<const std::byte> bytes);
bool is_priority(float value);  // finite and >= 0, or kUnknownPriority

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);  // SSE4.2 where there is, else a table
std::uint32_t chunk_checksum(const Signature& signature, std::span<const std::byte> chunk);
// The same with this header instead of the chunk's.
std::uint32_t chunk_checksum(const Signature& signature, const ChunkHeader& header, std::span<const std::byte> chunk);

}  // namespace headrace
