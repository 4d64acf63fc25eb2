#include "core/gather.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace headrace {
namespace {

constexpr std::size_t kBlock = 32;  // transitions whose cache misses overlap: more would push each other out of L1

// Where one transition's parts lie.
struct Place {
  const std::byte* rows;
  const std::byte* action;
  const std::uint64_t* policy_version;
  const std::uint32_t* first;
  const std::uint32_t* last;
  const float* reward;
  const float* discount;
};

Place locate(const Transitions& transitions, const ChunkHeader& chunk, std::uint64_t key) {
  const auto* base = reinterpret_cast<const std::byte*>(&chunk);
  const ChunkLayout layout = transitions.layout_of(chunk);
  const std::size_t step = key - chunk.first_key;
  const auto column = [&](std::size_t offset) { return base + offset + step * 4; };
  return {base + layout.observation,
          base + layout.action + step * transitions.action_bytes(),
          reinterpret_cast<const std::uint64_t*>(base + layout.policy_version) + step,
          reinterpret_cast<const std::uint32_t*>(column(layout.first)),
          reinterpret_cast<const std::uint32_t*>(column(layout.last)),
          reinterpret_cast<const float*>(column(layout.reward)),
          reinterpret_cast<const float*>(column(layout.discount))};
}

// memcpy whose commonest small sizes are compiled in: a call costs more than such a copy.
void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    case 32:
      std::memcpy(to, from, 32);
      return;
    case 64:
      std::memcpy(to, from, 64);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

// Frames row-K+1 .. row as one copy; frames before the chunk's first row repeat that row.
void copy_stack(std::byte* to, const std::byte* rows, std::uint32_t row, std::uint32_t stack, std::size_t row_bytes) {
  std::uint32_t frames = stack;
  for (; frames > row + 1; --frames, to += row_bytes) copy(to, rows, row_bytes);
  copy(to, rows + (row + 1 - frames) * row_bytes, frames * row_bytes);
}

const std::byte* stack_begin(const std::byte* rows, std::uint32_t row, std::uint32_t stack, std::size_t row_bytes) {
  return rows + (row + 1 > stack ? row + 1 - stack : 0) * row_bytes;
}

void prefetch_fields(const Place& place) {
  for (const void* field : {static_cast<const void*>(place.first), static_cast<const void*>(place.last),
                            static_cast<const void*>(place.action), static_cast<const void*>(place.policy_version),
                            static_cast<const void*>(place.reward), static_cast<const void*>(place.discount)}) {
    __builtin_prefetch(field);
  }
}

void copy_fields(const Place& place, std::size_t action_bytes, const BatchView& batch, std::size_t index) {
  if (batch.action) copy(batch.action + index * action_bytes, place.action, action_bytes);
  if (batch.reward) batch.reward[index] = *place.reward;
  if (batch.discount) batch.discount[index] = *place.discount;
  if (batch.policy_version) batch.policy_version[index] = *place.policy_version;
}

}  // namespace

void gather(const Transitions& transitions, std::uint32_t stack, std::span<const std::uint64_t> keys,
            std::span<const std::uint64_t> slots, const BatchView& batch) {
  const std::size_t row_bytes = transitions.row_bytes();
  const std::size_t stack_bytes = stack * row_bytes;
  std::array<const ChunkHeader*, kBlock> chunks;
  std::array<Place, kBlock> places;
  // Each pass over a block touches what the pass before has asked for.
  for (std::size_t begin = 0; begin < keys.size(); begin += kBlock) {
    const std::size_t count = std::min(kBlock, keys.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      chunks[i] = &transitions.chunk_at(slots[begin + i]);
      __builtin_prefetch(chunks[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      places[i] = locate(transitions, *chunks[i], keys[begin + i]);
      prefetch_fields(places[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      copy_fields(places[i], transitions.action_bytes(), batch, begin + i);
      __builtin_prefetch(stack_begin(places[i].rows, *places[i].first, stack, row_bytes));
      __builtin_prefetch(stack_begin(places[i].rows, *places[i].last, stack, row_bytes));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (begin + i) * stack_bytes;
      if (batch.observation) copy_stack(batch.observation + at, places[i].rows, *places[i].first, stack, row_bytes);
      if (batch.next_observation) {
        copy_stack(batch.next_observation + at, places[i].rows, *places[i].last, stack, row_bytes);
      }
    }
  }
}

}  // namespace headrace
