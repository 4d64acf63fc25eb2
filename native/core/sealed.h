// Words of a mapped file that are stored while the process may be killed: each is one aligned store with its own
// checksum, so that a damaged word is never believed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/chunk.h"

namespace headrace {

constexpr std::uint64_t kUnsealable = std::uint64_t{1} << 48;  // from here on a number does not fit

// A number of 48 bits and 16 bits of its checksum. None is sealed as 0.
inline std::uint64_t sealed(std::uint64_t number) {
  return number << 16 | (crc32c(std::as_bytes(std::span(&number, 1))) & 0xffff);
}

inline std::optional<std::uint64_t> unsealed(std::uint64_t word) {
  const std::uint64_t number = word >> 16;
  return sealed(number) == word ? std::optional(number) : std::nullopt;
}

// Called between writes whose order is kept: a simulation ends the server there. Null in every other program. Not
// synchronized: only a program whose writes are all in one thread may set it.
inline void (*between_writes)() = nullptr;

// If the file has a write after this call, it has every write before it, wherever the process is killed.
inline void keep_order() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (between_writes != nullptr) between_writes();
}

// In order with the bytes on either side: a killed process must leave what recovery expects.
inline void store_in_order(std::uint64_t& word, std::uint64_t value) {
  keep_order();
  std::atomic_ref(word).store(value, std::memory_order_seq_cst);
  keep_order();
}

}  // namespace headrace
