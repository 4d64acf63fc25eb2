// Bytes received and not yet handled, contiguous. It grows as bytes arrive, never only because a peer announced them;
// beyond its first bytes it takes memory from a budget.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "core/memory_budget.h"

namespace headrace {

class ReceiveBuffer {
 public:
  // Not counted, so that small requests (stats, drop) can be made where the budget is used up.
  static constexpr std::size_t kUncountedBytes = 4 << 10;
  static constexpr std::size_t kFirstBytes = 64 << 10;  // where the budget has room
  // More is given back once it is empty, unless kept: room for a part of a blob with its header.
  static constexpr std::size_t kRetainedBytes = (4 << 20) + (4 << 10);

  explicit ReceiveBuffer(MemoryBudget& budget) : budget_(budget) {}  // which outlives it

  std::span<const std::byte> bytes() const { return {data_.get() + begin_, end_ - begin_}; }
  // Makes sure that space() is not empty, given that the frame in front has `frame_bytes` and is not complete: a full
  // buffer doubles, but not beyond the frame. kRefused where the budget has no room; the bytes stay as they are. Spans
  // from bytes() are invalid afterwards.
  void make_room(std::size_t frame_bytes);
  std::span<std::byte> space();  // where to put more; before the first bytes it needs no make_room()
  void commit(std::size_t count) { end_ += count; }
  void pop(std::size_t count);
  void keep() { kept_ = true; }  // until release(): frames as large as the largest come again and again
  void release();                // all memory, if there are no bytes

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  void grow_to(std::size_t capacity, MemoryBudget::Share share);

  MemoryBudget& budget_;
  MemoryBudget::Share share_;
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool kept_ = false;
};

}  // namespace headrace
