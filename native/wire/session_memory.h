// The memory that a session's batches are gathered into; part of session.cc, session_sampling.cc and
// session_shards.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/huge_array.h"
#include "core/memory_budget.h"
#include "core/signature.h"
#include "wire/session.h"
#include "wire/shared_region.h"

namespace headrace {

// One batch's memory, reused from sample to sample once the peer has received the last one.
struct Session::Block {
  Block(MemoryBudget& budget, std::uint64_t bytes) : share(budget.take(bytes, "a sampled batch")), memory(bytes) {}

  std::size_t bytes() const { return memory.size(); }

  MemoryBudget::Share share;
  HugeArray<std::byte> memory;
};

// Batches of one size from one table, laid out at multiples of `stride` bytes.
struct Session::Shared {
  std::byte* at(std::uint32_t index) const { return region->bytes().data() + index * stride; }

  std::string table;
  Signature signature;
  std::uint32_t size;   // B
  std::uint32_t count;  // of batches
  std::uint64_t stride;
  MemoryBudget::Share share;
  std::shared_ptr<SharedRegion> region;
};

// A gradient, and at `stride` parameters, of one shard.
struct Session::SharedShard {
  std::span<const std::byte> gradient(std::size_t bytes) const { return region->bytes().first(bytes); }
  std::span<std::byte> parameters(std::size_t bytes) const { return region->bytes().subspan(stride, bytes); }

  std::string name;
  std::size_t bytes;  // of a gradient
  std::uint64_t stride;
  MemoryBudget::Share share;
  std::shared_ptr<SharedRegion> region;
};

}  // namespace headrace
