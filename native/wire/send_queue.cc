#include "wire/send_queue.h"

#include <algorithm>
#include <utility>

namespace headrace {

SendQueue::Piece::Piece(SendQueue& queue, std::size_t size) : uncounted(queue.uncounted_bytes_), size(size) {
  bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  if (auto taken = queue.budget_.try_take(size)) {
    share = std::move(*taken);
  } else {
    uncounted += size;
  }
}

SendQueue::Piece::~Piece() { uncounted -= size - share.bytes(); }

void SendQueue::push(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (!piece_ || piece_->size - piece_->used < bytes.size()) {
    piece_ = std::make_shared<Piece>(*this, std::max(kPieceBytes, bytes.size()));
  }
  const std::span<std::byte> to(piece_->bytes.get() + piece_->used, bytes.size());
  // Two pieces may lie next to each other in memory, but each is kept by its own segments.
  const bool grows = !segments_.empty() && segments_.back().owner == piece_ &&
                     segments_.back().bytes.data() + segments_.back().bytes.size() == to.data();
  if (!grows) segments_.push_back({piece_, to.first(0)});
  std::ranges::copy(bytes, to.begin());  // from here on nothing throws
  auto& segment = segments_.back().bytes;
  segment = {segment.data(), segment.size() + to.size()};
  piece_->used += to.size();
  bytes_ += to.size();
}

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
  if (segments_.empty()) piece_.reset();
}

}  // namespace headrace
