#include "core/arena.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/arena_file.h"
#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::uint64_t kMaxKey = std::uint64_t{1} << 62;  // no table lives so long, and no sum of keys overflows

constexpr std::size_t stride_of(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

ChunkHeader header_at(const std::byte* at) {
  ChunkHeader header;
  std::memcpy(&header, at, sizeof(header));
  return header;
}

// The header of a whole, undamaged chunk within `room` bytes, or nullopt.
std::optional<ChunkHeader> intact_chunk(const Signature& signature, const std::byte* at, std::size_t room) {
  if (room < sizeof(ChunkHeader)) return std::nullopt;
  const ChunkHeader header = header_at(at);
  if (header.magic != kChunkMagic || header.bytes > room || header.first_key > kMaxKey) return std::nullopt;
  try {
    check_chunk(signature, {at, header.bytes});
  } catch (const Error&) {
    return std::nullopt;
  }
  if (header.checksum != chunk_checksum(signature, {at, header.bytes})) return std::nullopt;
  return header;
}

}  // namespace

Arena::Arena(const Signature& signature, std::size_t capacity_bytes, const std::string& path)
    : capacity_(stride_of(capacity_bytes)) {
  if (path.empty()) {
    heap_.emplace(capacity_);
    base_ = heap_->data();
    return;
  }
  file_ = std::make_unique<ArenaFile>(signature, capacity_, path);
  base_ = file_->ring();
  recover(signature);
}

Arena::~Arena() = default;

void Arena::flush() const {
  if (file_) file_->flush();
}

void Arena::recover(const Signature& signature) {
  std::size_t at = file_->oldest();
  std::optional<std::uint64_t> expected;  // first_key of the next chunk
  const auto chunk_at = [&](std::size_t offset) -> std::optional<ChunkHeader> {
    const std::size_t limit = wrapped_ ? tail_ : capacity_;
    if (offset >= limit || offset % kAlignment != 0) return std::nullopt;
    const auto header = intact_chunk(signature, base_ + offset, limit - offset);
    return header && (!expected || header->first_key == *expected) ? header : std::nullopt;
  };
  tail_ = at;
  for (;;) {
    std::optional<ChunkHeader> header = chunk_at(at);
    if (!header && expected && !wrapped_ && at != tail_) {  // it may lie at the ring's beginning
      wrapped_ = true;
      end_ = std::exchange(at, 0);
      header = chunk_at(at);
      if (!header) {
        wrapped_ = false;
        at = end_;
      }
    }
    if (!header) break;
    recovered_.push_back(at);
    expected = header->first_key + header->steps;
    at += stride_of(header->bytes);
    used_ += stride_of(header->bytes);
    ++count_;
  }
  head_ = count_ > 0 ? at : 0;
  if (count_ == 0) tail_ = 0;
  file_->set_oldest(count_ > 0 ? tail_ : ArenaFile::kNone);
}

std::optional<std::size_t> Arena::fitting(std::size_t stride) const {
  if (wrapped_) return tail_ - head_ >= stride ? std::optional(head_) : std::nullopt;
  if (capacity_ - head_ >= stride) return head_;
  const std::size_t before_oldest = count_ > 0 ? tail_ : capacity_;
  return before_oldest >= stride ? std::optional<std::size_t>(0) : std::nullopt;
}

std::optional<std::size_t> Arena::reserve(std::size_t bytes) {
  const std::size_t stride = stride_of(bytes);
  const std::optional<std::size_t> offset = fitting(stride);
  if (!file_ || !offset) return offset;
  // Where the walk of recover() will look next there may lie a chunk of an older life with the very key that it
  // expects: unmake it. That is behind this chunk, or at the ring's beginning where the ring has not wrapped.
  const auto unmake = [&](std::size_t place) { std::memset(base_ + place, 0, sizeof(ChunkHeader::magic)); };
  const std::size_t behind = *offset + stride;
  if (behind < capacity_ && !(count_ > 0 && behind == tail_)) unmake(behind);
  const std::size_t oldest = count_ > 0 ? tail_ : *offset;
  if (*offset >= oldest && oldest > 0) unmake(0);
  return offset;
}

void Arena::commit(std::size_t offset, std::size_t bytes) {
  if (count_ == 0) {
    tail_ = offset;
    wrapped_ = false;
    if (file_) file_->set_oldest(offset);
  } else if (offset != head_) {
    end_ = head_;
    wrapped_ = true;
  }
  head_ = offset + stride_of(bytes);
  used_ += stride_of(bytes);
  ++count_;
}

void Arena::release_oldest() {
  const std::size_t stride = stride_of(header_at(base_ + tail_).bytes);
  tail_ += stride;
  used_ -= stride;
  --count_;
  if (wrapped_ && tail_ == end_) {
    tail_ = 0;
    wrapped_ = false;
  }
  if (file_) file_->set_oldest(count_ > 0 ? tail_ : ArenaFile::kNone);
}

void Arena::start_at(std::size_t offset) { head_ = offset; }

}  // namespace headrace
