#include "core/arena.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "core/arena_file.h"
#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t stride_of(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

ChunkHeader header_at(const std::byte* at) {
  ChunkHeader header;
  std::memcpy(&header, at, sizeof(header));
  return header;
}

// The header of a chunk within `room` bytes whose transitions are undamaged, or nullopt.
std::optional<ChunkHeader> intact_chunk(const Signature& signature, std::uint32_t mark, const std::byte* at,
                                        std::size_t room) {
  if (room < sizeof(ChunkHeader)) return std::nullopt;
  const ChunkHeader header = header_at(at);
  if (header.magic != kChunkMagic || header.mark != mark || header.bytes > room) return std::nullopt;
  if (header.first_key > ArenaFile::kMaxKey || header.oldest_key > header.first_key) return std::nullopt;
  try {
    check_transitions(signature, {at, header.bytes});
  } catch (const Error&) {
    return std::nullopt;
  }
  if (header.checksum != chunk_checksum(signature, header, {at, header.bytes})) return std::nullopt;
  return header;
}

// Where a page with priorities is older than the chunk, they may be any bytes: then all of them are unknown.
void mend_priorities(const Signature& signature, std::byte* at) {
  const ChunkHeader header = header_at(at);
  auto* first = reinterpret_cast<float*>(at + ChunkLayout::of(signature, header.steps, header.rows).priority);
  float* const last = first + header.steps;
  if (!std::all_of(first, last, is_priority)) std::fill(first, last, kUnknownPriority);
}

}  // namespace

struct Arena::Found {
  std::size_t offset;
  ChunkHeader header;
  std::uint64_t first_key() const { return header.first_key; }
  std::uint64_t next_key() const { return header.first_key + header.steps; }
  std::size_t end() const { return offset + stride_of(header.bytes); }
};

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

std::uint32_t Arena::mark() const { return file_ ? file_->mark() : 0; }

// Every intact chunk, in the order of keys: of the whole ring, or of what was ever written. Of those that overlap, the
// newest stays: after a power loss, an evicted chunk may be intact although a newer one begins in its priorities, which
// no checksum covers. Nothing is looked for in the bytes that a checksum covers.
std::vector<Arena::Found> Arena::scan(const Signature& signature, bool whole) const {
  std::vector<Found> found;
  std::size_t at = 0;
  for (const auto& [begin, end] : whole ? std::vector<ArenaFile::Part>{{0, capacity_}} : file_->written()) {
    at = std::max(at, begin / kAlignment * kAlignment);
    while (at < std::min(end, capacity_)) {
      const auto header = intact_chunk(signature, mark(), base_ + at, capacity_ - at);
      if (header) found.push_back({at, *header});
      at += header ? stride_of(ChunkLayout::of(signature, header->steps, header->rows).priority) : kAlignment;
    }
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.first_key() > b.first_key(); });
  std::vector<Found> apart;
  std::map<std::size_t, std::size_t> taken;  // where each of these begins and ends
  for (const Found& chunk : found) {
    const auto behind = taken.lower_bound(chunk.offset);
    const bool reaches_next = behind != taken.end() && behind->first < chunk.end();
    if (reaches_next || (behind != taken.begin() && std::prev(behind)->second > chunk.offset)) continue;
    taken.emplace(chunk.offset, chunk.end());
    apart.push_back(chunk);
  }
  std::reverse(apart.begin(), apart.end());
  return apart;
}

// Of all intact chunks those that were stored when the newest was: it names the oldest key of that moment. If some of
// those are missing, evicted chunks take their places, the newest first, but no more transitions than were stored then:
// a power loss may leave a single chunk of those that overwrote all others. Of chunks that claim the same key one
// stays.
std::vector<Arena::Found> Arena::restorable(const std::vector<Found>& found) {
  std::vector<Found> kept;
  std::uint64_t missing = found.empty() ? 0 : found.back().next_key() - found.back().header.oldest_key;
  for (auto chunk = found.rbegin(); chunk != found.rend(); ++chunk) {
    if (!kept.empty() && chunk->next_key() > kept.back().first_key()) continue;
    const bool evicted = chunk->first_key() < found.back().header.oldest_key;
    if (evicted && chunk->header.steps > missing) break;
    missing -= std::min<std::uint64_t>(missing, chunk->header.steps);
    kept.push_back(*chunk);
  }
  return kept;
}

void Arena::recover(const Signature& signature) {
  const auto oldest = file_->oldest_key(), next = file_->next_key();
  std::vector<Found> found = scan(signature, false);
  // The normal case after a kill: all chunks that the file's header names, and perhaps one more.
  std::vector<Found> kept;
  std::uint64_t behind = oldest.value_or(0);
  next_key_ = next.value_or(0);
  for (const Found& chunk : found) {
    next_key_ = std::max(next_key_, chunk.next_key());
    if (!oldest || chunk.first_key() != behind) continue;
    kept.push_back(chunk);
    behind = chunk.next_key();
  }
  if (!oldest || !next || behind != next_key_) {
    found = scan(signature, true);  // all of it, regardless of what the file system reports
    for (const Found& chunk : found) next_key_ = std::max(next_key_, chunk.next_key());
    kept = restorable(found);
    const std::uint64_t from = std::max(oldest.value_or(next_key_), found.empty() ? 0 : found.back().header.oldest_key);
    std::uint64_t there = 0;
    for (const Found& chunk : kept) there += chunk.first_key() >= from ? chunk.header.steps : 0;
    lost_ = next_key_ > from + there ? next_key_ - from - there : 0;
  }
  take_up(std::move(kept));
  for (const std::size_t offset : recovered_) mend_priorities(signature, at(offset));
  const std::uint64_t oldest_key = recovered_.empty() ? next_key_ : header_at(at(recovered_[0])).first_key;
  if (!consecutive_from(oldest_key)) return renumber(signature);
  file_->set_oldest_key(oldest_key);
  file_->set_next_key(next_key_);
}

// Whether the keys of what was recovered follow one another, from this one to the next.
bool Arena::consecutive_from(std::uint64_t key) const {
  for (const std::size_t offset : recovered_) {
    const ChunkHeader header = header_at(at(offset));
    if (header.first_key != key) return false;
    key += header.steps;
  }
  return key == next_key_;
}

// The ring as it is once these are stored, the newest of which has the highest key.
void Arena::take_up(std::vector<Found> chunks) {
  if (chunks.empty()) return;
  const std::size_t newest = std::max_element(chunks.begin(), chunks.end(), [](const Found& a, const Found& b) {
                               return a.first_key() < b.first_key();
                             })->offset;
  std::sort(chunks.begin(), chunks.end(), [](const Found& a, const Found& b) { return a.offset < b.offset; });
  const auto first = std::find_if(chunks.begin(), chunks.end(), [&](const Found& c) { return c.offset > newest; });
  wrapped_ = first != chunks.end();
  if (wrapped_) end_ = chunks.back().offset + stride_of(chunks.back().header.bytes);
  std::rotate(chunks.begin(), first, chunks.end());
  for (const Found& chunk : chunks) {
    recovered_.push_back(chunk.offset);
    used_ += stride_of(chunk.header.bytes);
  }
  count_ = chunks.size();
  tail_ = chunks.front().offset;
  head_ = newest + stride_of(chunks.back().header.bytes);
}

// Gives all chunks new keys: a table's keys have no gaps, and no key is used twice. If this is interrupted, each
// chunk is intact under its old key or its new one, none names an oldest key above either, and the header names none.
void Arena::renumber(const Signature& signature) {
  std::uint64_t lowest = next_key_, key = next_key_;
  for (const std::size_t offset : recovered_) {
    const ChunkHeader header = header_at(at(offset));
    lowest = std::min(lowest, header.first_key);
    next_key_ += header.steps;
  }
  file_->set_oldest_key(std::nullopt);
  file_->set_next_key(next_key_);
  const std::uint64_t oldest_key = key;
  for (const std::size_t offset : recovered_) {
    ChunkHeader header = header_at(at(offset));
    header.first_key = std::exchange(key, key + header.steps);
    header.oldest_key = lowest;
    header.checksum = chunk_checksum(signature, header, {at(offset), header.bytes});
    std::memcpy(at(offset), &header, sizeof(header));  // at once: a chunk is intact before and after it
  }
  file_->set_oldest_key(oldest_key);
  file_->flush();
}

std::optional<std::size_t> Arena::reserve(std::size_t bytes) const {
  const std::size_t stride = stride_of(bytes);
  if (wrapped_) return tail_ - head_ >= stride ? std::optional(head_) : std::nullopt;
  if (capacity_ - head_ >= stride) return head_;
  const std::size_t before_oldest = count_ > 0 ? tail_ : capacity_;
  return before_oldest >= stride ? std::optional<std::size_t>(0) : std::nullopt;
}

void Arena::commit(std::size_t offset, std::size_t bytes) {
  if (count_ == 0) {
    tail_ = offset;
    wrapped_ = false;
  } else if (offset != head_) {
    end_ = head_;
    wrapped_ = true;
  }
  head_ = offset + stride_of(bytes);
  used_ += stride_of(bytes);
  ++count_;
  if (!file_) return;
  const ChunkHeader header = header_at(at(offset));
  if (count_ == 1) file_->set_oldest_key(header.first_key);
  file_->set_next_key(header.first_key + header.steps);
}

void Arena::release_oldest() {
  const ChunkHeader header = header_at(at(tail_));
  const std::size_t stride = stride_of(header.bytes);
  if (recovered_released_ < recovered_.size()) ++recovered_released_;
  const std::size_t behind = tail_ + stride;
  tail_ = recovered_released_ < recovered_.size() ? recovered_[recovered_released_] : behind;
  used_ -= stride;
  --count_;
  if (wrapped_ && (tail_ == end_ || tail_ < behind)) {
    if (tail_ == end_) tail_ = 0;
    wrapped_ = false;
  }
  if (file_) file_->set_oldest_key(header.first_key + header.steps);
}

void Arena::start_at(std::size_t offset) { head_ = offset; }

void Arena::wipe() {
  if (!file_) return;
  for (std::size_t at = 0; at < capacity_; at += kAlignment) {
    if (header_at(base_ + at).magic == kChunkMagic) std::memset(base_ + at, 0, sizeof(ChunkHeader::magic));
  }
  file_->set_oldest_key(0);
  file_->set_next_key(0);
}

}  // namespace headrace
