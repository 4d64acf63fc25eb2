#include "core/chunk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#include "core/error.h"

namespace headrace {
namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& value, const std::string& required) {
  throw Error(ErrorKind::kChunkRefused,
              "chunk." + field + ": " + value + ", but it must be " + required + "; the chunk is not stored");
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Finds the first of `count` values for which `good` is false. Whole blocks are tested without a branch per value.
template <class T, class Good>
std::uint32_t first_bad(const std::byte* values, std::uint32_t count, Good good) {
  constexpr std::uint32_t kBlock = 64;
  for (std::uint32_t begin = 0; begin < count; begin += kBlock) {
    const std::uint32_t end = std::min(count, begin + kBlock);
    bool all = true;
    for (std::uint32_t i = begin; i < end; ++i) all &= good(load<T>(values + i * sizeof(T)));
    if (all) continue;
    for (std::uint32_t i = begin; i < end; ++i) {
      if (!good(load<T>(values + i * sizeof(T)))) return i;
    }
  }
  return count;
}

template <class T, class Good>
void check_values(const char* field, const std::byte* values, std::uint32_t count, const std::string& required,
                  Good good) {
  const std::uint32_t bad = first_bad<T>(values, count, good);
  if (bad == count) return;
  refuse(std::string(field) + "[" + std::to_string(bad) + "]", std::to_string(load<T>(values + bad * sizeof(T))),
         required);
}

void check_header(const Signature& signature, const ChunkHeader& header, std::size_t bytes) {
  if (header.magic != kChunkMagic) refuse("magic", std::to_string(header.magic), std::to_string(kChunkMagic));
  if (header.steps < 1 || header.steps > kMaxSteps) {
    refuse("steps", std::to_string(header.steps), "from 1 to " + std::to_string(kMaxSteps));
  }
  // Every row costs bytes, so this also bounds the layout's products below the size of an address.
  if (header.rows < 1 || header.rows > bytes / signature.observation.bytes()) {
    refuse("rows", std::to_string(header.rows),
           "from 1 to what " + std::to_string(bytes) + " bytes hold of rows of " +
               std::to_string(signature.observation.bytes()) + " bytes");
  }
  const std::size_t expected = ChunkLayout::of(signature, header.steps, header.rows).bytes;
  if (header.bytes != expected || bytes != expected) {
    refuse("bytes", std::to_string(header.bytes) + " (" + std::to_string(bytes) + " given)",
           std::to_string(expected) + " for " + std::to_string(header.steps) + " steps and " +
               std::to_string(header.rows) + " rows of " + signature.encode());
  }
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

std::uint32_t crc_portable(const std::byte* at, std::size_t size, std::uint32_t crc) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  for (std::size_t i = 0; i < size; ++i) crc = kTable[(crc ^ static_cast<std::uint32_t>(at[i])) & 0xff] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) std::uint32_t crc_sse42(const std::byte* at, std::size_t size,
                                                                std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; size >= 8; at += 8, size -= 8) wide = _mm_crc32_u64(wide, load<std::uint64_t>(at));
  crc = static_cast<std::uint32_t>(wide);
  for (; size > 0; ++at, --size) crc = _mm_crc32_u8(crc, static_cast<std::uint8_t>(*at));
  return crc;
}
#endif

}  // namespace

ChunkHeader check_transitions(const Signature& signature, std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(ChunkHeader)) {
    refuse("bytes", std::to_string(bytes.size()), "at least a header of " + std::to_string(sizeof(ChunkHeader)));
  }
  const auto header = load<ChunkHeader>(bytes.data());
  check_header(signature, header, bytes.size());
  const ChunkLayout layout = ChunkLayout::of(signature, header.steps, header.rows);
  const auto row_exists = [rows = header.rows](std::uint32_t row) { return row < rows; };
  const std::string below_rows = "below rows = " + std::to_string(header.rows);
  const std::byte* base = bytes.data();
  check_values<std::uint32_t>("first", base + layout.first, header.steps, below_rows, row_exists);
  check_values<std::uint32_t>("last", base + layout.last, header.steps, below_rows, row_exists);
  check_values<float>("reward", base + layout.reward, header.steps, "finite",
                      [](float value) { return std::isfinite(value); });
  check_values<float>("discount", base + layout.discount, header.steps, "in [0, 1]",
                      [](float value) { return value >= 0.0f && value <= 1.0f; });
  return header;
}

bool is_priority(float value) { return (value >= 0.0f && std::isfinite(value)) || value == kUnknownPriority; }

ChunkHeader check_chunk(const Signature& signature, std::span<const std::byte> bytes) {
  const ChunkHeader header = check_transitions(signature, bytes);
  if (header.mark != 0) refuse("mark", std::to_string(header.mark), "0");
  const ChunkLayout layout = ChunkLayout::of(signature, header.steps, header.rows);
  check_values<float>("priority", bytes.data() + layout.priority, header.steps, "finite and >= 0, or -1 for unknown",
                      [](float value) { return is_priority(value); });
  return header;
}

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
#if defined(__x86_64__)
  static const bool kHardware = __builtin_cpu_supports("sse4.2");
  if (kHardware) return ~crc_sse42(bytes.data(), bytes.size(), ~seed);
#endif
  return ~crc_portable(bytes.data(), bytes.size(), ~seed);
}

std::uint32_t chunk_checksum(const Signature& signature, std::span<const std::byte> chunk) {
  return chunk_checksum(signature, load<ChunkHeader>(chunk.data()), chunk);
}

std::uint32_t chunk_checksum(const Signature& signature, const ChunkHeader& header, std::span<const std::byte> chunk) {
  const ChunkLayout layout = ChunkLayout::of(signature, header.steps, header.rows);
  constexpr std::size_t kChecksum = offsetof(ChunkHeader, checksum), kAfter = kChecksum + sizeof(header.checksum);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  const std::uint32_t begun = crc32c(bytes.subspan(kAfter), crc32c(bytes.first(kChecksum)));
  return crc32c(chunk.subspan(sizeof(header), layout.priority - sizeof(header)), begun);
}

}  // namespace headrace
