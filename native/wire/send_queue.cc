#include "wire/send_queue.h"

#include <algorithm>
#include <utility>

namespace headrace {

void SendQueue::push(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  segments_.push_back({std::move(owner), bytes});
  bytes_ += bytes.size();  // now that nothing throws any more
}

void SendQueue::push(std::vector<std::byte> bytes, std::shared_ptr<const void> owner, int descriptor) {
  struct Held {
    std::vector<std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  const auto held = std::make_shared<const Held>(Held{std::move(bytes), std::move(owner)});
  segments_.push_back({held, held->bytes, descriptor});
  bytes_ += held->bytes.size();
}

std::span<const std::span<const std::byte>> SendQueue::buffers() {
  buffers_.clear();
  const std::size_t count = std::min(segments_.size(), kMaxBuffers);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && (segments_[i].descriptor != kNoDescriptor || segments_[0].descriptor != kNoDescriptor)) break;
    buffers_.push_back(segments_[i].bytes);
  }
  return buffers_;
}

int SendQueue::descriptor() const { return segments_.empty() ? kNoDescriptor : segments_.front().descriptor; }

void SendQueue::pop(std::size_t count) {
  bytes_ -= count;
  while (count > 0) {
    auto& front = segments_.front();
    const std::size_t taken = std::min(count, front.bytes.size());
    front.bytes = front.bytes.subspan(taken);
    front.descriptor = kNoDescriptor;
    count -= taken;
    if (front.bytes.empty()) segments_.pop_front();
  }
}

}  // namespace headrace
