// Bytes to send: a list of buffers, each kept alive until the peer has it, and descriptors that are sent with some of
// them. Nothing is copied.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace headrace {

class SendQueue {
 public:
  static constexpr std::size_t kMaxBuffers = 64;  // of one buffers() call

  static constexpr int kNoDescriptor = -1;

  void push(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  // `bytes` are not empty; `descriptor` goes with the first of them, and `owner` keeps it open.
  void push(std::vector<std::byte> bytes, std::shared_ptr<const void> owner = {}, int descriptor = kNoDescriptor);
  // The first buffers in order, valid until the next call of any method; none behind one that has a descriptor, nor
  // such a one behind others.
  std::span<const std::span<const std::byte>> buffers();
  int descriptor() const;  // of the first buffer, none of which has been popped; else kNoDescriptor
  void pop(std::size_t count);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Segment {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
    int descriptor = kNoDescriptor;  // once a byte is popped, it has gone
  };
  std::deque<Segment> segments_;
  std::vector<std::span<const std::byte>> buffers_;
  std::size_t bytes_ = 0;
};

}  // namespace headrace
