#include "core/transitions.h"

#include <cstring>

#include "core/error.h"
#include "core/sealed.h"

namespace headrace {

Transitions::Transitions(const Signature& signature, std::uint64_t capacity, std::size_t capacity_bytes,
                         const std::string& path)
    : signature_(signature),
      row_bytes_(signature.observation.bytes()),
      action_bytes_(signature.action.bytes()),
      capacity_(capacity),
      arena_(signature, capacity_bytes, path),
      places_(capacity) {
  released_key_ = oldest_key_ = next_key_ = arena_.next_key();  // unless there are chunks
  for (const std::size_t offset : arena_.recovered()) {
    const ChunkHeader& header = header_at(offset);
    if (header.steps > capacity_) {
      throw Error(ErrorKind::kMismatch, "arena file " + path + " holds a chunk of " + std::to_string(header.steps) +
                                            " steps, but capacity is " + std::to_string(capacity_) +
                                            "; raise it, or move the file away");
    }
    if (chunks_ == 0) released_key_ = oldest_key_ = next_key_ = header.first_key;
    while (size() + header.steps > capacity_) forget_oldest();
    release_forgotten();
    adopt(offset);
  }
}

std::uint32_t Transitions::forget_oldest() {
  const std::uint32_t steps = chunk_at(slot_of(oldest_key_)).steps;
  oldest_key_ += steps;
  --chunks_;
  return steps;
}

void Transitions::release_forgotten() {
  while (released_key_ < oldest_key_) {
    const std::uint32_t steps = chunk_at(slot_of(released_key_)).steps;
    arena_.release_oldest();
    released_key_ += steps;
  }
}

const ChunkHeader& Transitions::write(std::size_t offset, std::span<const std::byte> chunk, float unknown_priority) {
  std::byte* stored = arena_.at(offset);
  auto& header = *reinterpret_cast<ChunkHeader*>(stored);
  ChunkHeader own;
  std::memcpy(&own, chunk.data(), sizeof(own));
  own.first_key = next_key_;
  own.oldest_key = oldest_key_;
  own.mark = arena_.mark();
  own.checksum = 0;
  std::memcpy(stored, &own, sizeof(own));
  std::memcpy(stored + sizeof(own), chunk.data() + sizeof(own), chunk.size() - sizeof(own));
  float* priorities = priorities_of(header);
  for (std::uint32_t i = 0; i < header.steps; ++i) {
    if (priorities[i] == kUnknownPriority) priorities[i] = unknown_priority;
  }
  if (arena_.persistent()) {
    keep_order();  // the checksum does not cover the priorities
    header.checksum = chunk_checksum(signature_, header, {stored, chunk.size()});
  }
  return header;
}

std::uint64_t Transitions::publish(std::size_t offset) {
  const std::uint64_t first_key = next_key_;
  arena_.commit(offset, header_at(offset).bytes);
  adopt(offset);
  return first_key;
}

void Transitions::adopt(std::size_t offset) {
  const std::uint32_t steps = header_at(offset).steps;
  std::uint64_t slot = slot_of(next_key_);
  for (std::uint32_t i = 0; i < steps; ++i) {
    places_[slot] = offset;
    if (++slot == capacity_) slot = 0;
  }
  next_key_ += steps;
  ++chunks_;
}

void Transitions::start_at(std::uint64_t key, std::size_t offset) {
  released_key_ = oldest_key_ = next_key_ = key;
  arena_.start_at(offset);
}

std::size_t Transitions::place_of_oldest() const { return size() > 0 ? places_[slot_of(oldest_key_)] : arena_.head(); }

}  // namespace headrace
