#include "wire/receive_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace {

void ReceiveBuffer::make_room(std::size_t frame_bytes) {
  const std::size_t used = end_ - begin_;
  if (begin_ > 0 && capacity_ - begin_ < frame_bytes) {
    std::memmove(data_.get(), data_.get() + begin_, used);
    begin_ = 0;
    end_ = used;
  }
  if (capacity_ > 0 && end_ == capacity_) grow_to(std::max(kFirstBytes, std::min(2 * capacity_, frame_bytes)));
}

void ReceiveBuffer::grow_to(std::size_t capacity) {
  MemoryBudget::Share share;
  if (capacity > kFirstBytes) share = budget_.take(capacity, "bytes received of a frame");
  auto data = std::make_unique_for_overwrite<std::byte[]>(capacity);
  const std::size_t used = end_ - begin_;
  if (used > 0) std::memcpy(data.get(), data_.get() + begin_, used);
  data_ = std::move(data);
  share_ = std::move(share);
  capacity_ = capacity;
  begin_ = 0;
  end_ = used;
}

std::span<std::byte> ReceiveBuffer::space() {
  if (capacity_ == 0) grow_to(kFirstBytes);
  return {data_.get() + end_, capacity_ - end_};
}

void ReceiveBuffer::pop(std::size_t count) {
  begin_ += count;
  if (begin_ < end_) return;
  begin_ = end_ = 0;
  if (capacity_ > kKeptBytes && !kept_) {
    data_.reset();
    share_ = {};
    capacity_ = 0;
  }
}

}  // namespace headrace
