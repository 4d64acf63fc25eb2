// The sections of a sampled batch in the order that they travel in, without padding between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/signature.h"
#include "core/table.h"

namespace headrace {

inline constexpr std::size_t kBatchSections = 9;
using BatchSections = std::array<std::span<std::byte>, kBatchSections>;

// Bytes of each section for a batch of `size` transitions. No overflow up to 2^24 transitions: Signature::check()
// bounds a row to 1 GiB and a stack to 64.
std::array<std::uint64_t, kBatchSections> section_bytes(const Signature& signature, std::uint32_t size);

// The caller's arrays as spans.
BatchSections sections_of(const Signature& signature, const BatchView& batch);
std::uint64_t total_bytes(const BatchSections& sections);

// A view into one block of memory, each section at a multiple of 64 bytes.
BatchView lay_out(const Signature& signature, std::uint32_t size, std::byte* block);
std::uint64_t block_bytes(const Signature& signature, std::uint32_t size);

}  // namespace headrace
