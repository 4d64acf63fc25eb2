#include "wire/receive_buffer.h"

#include <algorithm>
#include <cstring>

namespace headrace {

std::span<std::byte> ReceiveBuffer::space(std::size_t frame_bytes) {
  const std::size_t used = end_ - begin_;
  if (begin_ > 0 && capacity_ - begin_ < frame_bytes) {
    std::memmove(data_.get(), data_.get() + begin_, used);
    begin_ = 0;
    end_ = used;
  }
  if (end_ == capacity_) {
    const std::size_t capacity = std::max(kFirstBytes, std::min(2 * capacity_, frame_bytes));
    auto data = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (used > 0) std::memcpy(data.get(), data_.get() + begin_, used);
    data_ = std::move(data);
    capacity_ = capacity;
    begin_ = 0;
    end_ = used;
  }
  return {data_.get() + end_, capacity_ - end_};
}

void ReceiveBuffer::pop(std::size_t count) {
  begin_ += count;
  if (begin_ < end_) return;
  begin_ = end_ = 0;
  if (capacity_ > kKeptBytes) {
    data_.reset();
    capacity_ = 0;
  }
}

}  // namespace headrace
