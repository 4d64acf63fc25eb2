// Bytes to send: a list of buffers, each kept alive until the peer has it. Nothing is copied.
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

  void push(std::vector<std::byte> bytes);
  void push(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);
  // The first buffers in order, valid until the next call of any method.
  std::span<const std::span<const std::byte>> buffers();
  void pop(std::size_t count);
  std::size_t bytes() const { return bytes_; }

 private:
  struct Segment {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;
  };
  std::deque<Segment> segments_;
  std::vector<std::span<const std::byte>> buffers_;
  std::size_t bytes_ = 0;
};

}  // namespace headrace
