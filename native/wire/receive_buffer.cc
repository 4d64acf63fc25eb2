#include "wire/receive_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace headrace {

void ReceiveBuffer::make_room(std::size_t frame_bytes) {
  const std::size_t used = end_ - begin_;
  if (begin_ > 0 && capacity_ - begin_ < frame_bytes) {
    std::memmove(data_.get(), data_.get() + begin_, used);
    begin_ = 0;
    end_ = used;
  }
  if (capacity_ == 0 || end_ < capacity_) return;
  const std::size_t capacity = std::max(kFirstBytes, std::min(2 * capacity_, frame_bytes));
  grow_to(capacity, budget_.take(capacity - share_.bytes(), "bytes received of a frame"));
}

// The system moves the pages of a large buffer, so that growing copies none of its bytes.
void ReceiveBuffer::grow_to(std::size_t capacity, MemoryBudget::Share share) {
  auto* data = static_cast<std::byte*>(std::realloc(data_.get(), capacity));
  if (data == nullptr) throw std::bad_alloc();
  static_cast<void>(data_.release());
  data_.reset(data);
  share_.add(std::move(share));
  capacity_ = capacity;
}

std::span<std::byte> ReceiveBuffer::space() {
  if (capacity_ == 0) {
    auto share = budget_.try_take(kFirstBytes);
    grow_to(share ? kFirstBytes : kUncountedBytes, share ? std::move(*share) : MemoryBudget::Share());
  }
  return {data_.get() + end_, capacity_ - end_};
}

void ReceiveBuffer::pop(std::size_t count) {
  begin_ += count;
  if (begin_ < end_) return;
  begin_ = end_ = 0;
  if (capacity_ > kRetainedBytes && !kept_) release();
}

void ReceiveBuffer::release() {
  if (begin_ < end_) return;
  data_.reset();
  share_ = {};
  capacity_ = begin_ = end_ = 0;
  kept_ = false;
}

}  // namespace headrace
