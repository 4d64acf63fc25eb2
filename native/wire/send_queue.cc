#include "wire/send_queue.h"

#include <algorithm>
#include <utility>

namespace headrace {

void SendQueue::push(std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  push(owner, *owner);
}

void SendQueue::push(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  bytes_ += bytes.size();
  segments_.push_back({std::move(owner), bytes});
}

std::span<const std::span<const std::byte>> SendQueue::buffers() {
  buffers_.clear();
  const std::size_t count = std::min(segments_.size(), kMaxBuffers);
  for (std::size_t i = 0; i < count; ++i) buffers_.push_back(segments_[i].bytes);
  return buffers_;
}

void SendQueue::pop(std::size_t count) {
  bytes_ -= count;
  while (count > 0) {
    auto& front = segments_.front().bytes;
    const std::size_t taken = std::min(count, front.size());
    front = front.subspan(taken);
    count -= taken;
    if (front.empty()) segments_.pop_front();
  }
}

}  // namespace headrace
