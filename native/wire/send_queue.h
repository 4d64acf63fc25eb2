// Bytes to send: a list of buffers, each kept alive until the peer has it, and descriptors that are sent with some of
// them. Those without an owner are copied into pieces, which take memory from a budget; nothing else is copied.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "core/memory_budget.h"

namespace headrace {

class SendQueue {
 public:
  static constexpr std::size_t kMaxBuffers = 64;  // of one buffers() call
  static constexpr std::size_t kPieceBytes = 1024;
  static constexpr int kNoDescriptor = -1;

  explicit SendQueue(MemoryBudget& budget) : budget_(budget) {}  // which outlives it

  void push(std::span<const std::byte> bytes);
  void push(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  // `bytes` are not empty; `descriptor` goes with the first of them, and `owner` keeps it open.
  void push(std::vector<std::byte> bytes, std::shared_ptr<const void> owner, int descriptor);
  // The first buffers in order, valid until the next call of any method; none behind one that has a descriptor, nor
  // such a one behind others.
  std::span<const std::span<const std::byte>> buffers();
  int descriptor() const;  // of the first buffer, none of which has been popped; else kNoDescriptor
  void pop(std::size_t count);
  std::size_t bytes() const { return bytes_; }
  std::size_t uncounted_bytes() const { return uncounted_bytes_; }  // of pieces for which the budget had no room

 private:
  struct Piece {
    Piece(SendQueue& queue, std::size_t size);
    ~Piece();
    std::size_t& uncounted;
    const std::size_t size;
    MemoryBudget::Share share;
    std::unique_ptr<std::byte[]> bytes;
    std::size_t used = 0;
  };
  struct Segment {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
    int descriptor = kNoDescriptor;  // once a byte is popped, it has gone
  };

  MemoryBudget& budget_;
  std::size_t bytes_ = 0;
  std::size_t uncounted_bytes_ = 0;  // before the pieces, which subtract theirs
  std::deque<Segment> segments_;
  std::shared_ptr<Piece> piece_;  // the last one
  std::vector<std::span<const std::byte>> buffers_;
};

}  // namespace headrace
