// A ring of bytes that holds chunks first in, first out: on the heap or in a memory-mapped file.
//
// A file outlives its process: after a server was killed, the next one finds its chunks. Chunks carry lengths, keys and
// checksums, and each names the oldest key that was stored when it was written. At open the whole ring is scanned for
// intact chunks, so a damaged chunk loses only itself: the newest chunk names the oldest key that was stored with it,
// and remains of older chunks are recognized by their keys. These are recovered only in place of chunks that are
// missing. A chunk that does not fit before the end of the ring lies at its beginning.
//
// Threading: not thread-safe. The owner (Table) guards it; bytes of stored chunks may be read by other threads
// for as long as the owner keeps them from being released.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/chunk.h"
#include "core/huge_array.h"
#include "core/signature.h"

namespace headrace {

class ArenaFile;

class Arena {
 public:
  // `path` empty: heap (huge pages advised). Otherwise a file of `capacity_bytes` (rounded up to kAlignment) plus its
  // header is created, or opened if it is there: kMismatch if its signature or size differs, kCorrupt if it is no
  // arena, kSystem if it cannot be used (its blocks are allocated now, so that a full disk is not noticed later by
  // SIGBUS; a file that another process has open is refused). A new file is on the disk when the constructor returns.
  Arena(const Signature& signature, std::size_t capacity_bytes, const std::string& path);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Chunks start at multiples of a cache line, so that a header is one line.
  static constexpr std::size_t kAlignment = 64;

  std::size_t capacity_bytes() const { return capacity_; }
  std::size_t used_bytes() const { return used_; }
  bool persistent() const { return file_ != nullptr; }
  void flush() const;  // a file's bytes are on the disk; throws kSystem
  // What the headers of a file's chunks carry, 0 on the heap. Bytes that were sent, and look like a stored chunk that
  // lies in another one's priorities, don't: they are told apart without a checksum.
  std::uint32_t mark() const;

  // Room for a chunk of `bytes` (<= capacity) if there is a contiguous place free now, else nullopt: the owner
  // releases the oldest chunk and asks again. Nothing is stored until commit(), which reads the chunk's keys.
  std::optional<std::size_t> reserve(std::size_t bytes) const;
  void commit(std::size_t offset, std::size_t bytes);
  void release_oldest();  // the oldest chunk's bytes become free; its size and keys are read from its header

  std::byte* at(std::size_t offset) { return base_ + offset; }
  const std::byte* at(std::size_t offset) const { return base_ + offset; }

  // Where the next chunk is placed if it fits there. start_at() sets it while the arena is empty, so that a restored
  // arena wraps where the saved one would have.
  std::size_t head() const { return head_; }
  void start_at(std::size_t offset);
  void wipe();  // of an empty arena: a file forgets every key that it has seen

  // What a file held when it was opened: the chunks' offsets, oldest first. All checksums hold, and keys follow one
  // another up to next_key(), which is above every key that the file has seen. They are the keys under which the chunks
  // were stored; but where some are missing among them, all have new ones. Priorities that are damaged are
  // kUnknownPriority.
  const std::vector<std::size_t>& recovered() const { return recovered_; }
  std::uint64_t next_key() const { return next_key_; }
  // Transitions known to have been in the file that could not be read: their chunks are damaged, or had not reached the
  // disk when the machine lost power. The chunk that was being written does not count.
  std::uint64_t lost() const { return lost_; }

 private:
  struct Found;
  void recover(const Signature& signature);
  std::vector<Found> scan(const Signature& signature, bool whole) const;
  static std::vector<Found> restorable(const std::vector<Found>& found);
  void take_up(std::vector<Found> chunks);
  bool consecutive_from(std::uint64_t key) const;
  void renumber(const Signature& signature);

  std::size_t capacity_;
  std::optional<HugeArray<std::byte>> heap_;
  std::unique_ptr<ArenaFile> file_;
  std::byte* base_ = nullptr;
  std::vector<std::size_t> recovered_;
  std::size_t recovered_released_ = 0;  // how many of these were released; between these there may be gaps
  std::uint64_t next_key_ = 0;
  std::uint64_t lost_ = 0;

  // Stored chunks fill [tail_, head_), or [tail_, end_) and [0, head_) where the ring has wrapped.
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::size_t end_ = 0;
  bool wrapped_ = false;
  std::size_t count_ = 0;
  std::size_t used_ = 0;
};

}  // namespace headrace
