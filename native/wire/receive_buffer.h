// Bytes received and not yet handled, contiguous. It grows as bytes arrive, never on the word of a peer alone.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace headrace {

class ReceiveBuffer {
 public:
  static constexpr std::size_t kFirstBytes = 64 << 10;
  static constexpr std::size_t kKeptBytes = 4 << 20;  // more is given back once it is empty

  std::span<const std::byte> bytes() const { return {data_.get() + begin_, end_ - begin_}; }
  // Where to put more, never empty, given that the frame in front has `frame_bytes` and is not complete. When full, the
  // buffer doubles, but not beyond the frame. Spans from bytes() are void afterwards.
  std::span<std::byte> space(std::size_t frame_bytes);
  void commit(std::size_t count) { end_ += count; }
  void pop(std::size_t count);

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace headrace
