#include "core/mailbox.h"

#include <iterator>
#include <string>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;

}  // namespace

void Mailbox::put(std::vector<std::byte> message) {
  if (message.size() > kMaxMessageBytes) {
    throw Error(ErrorKind::kRefused, "message: " + std::to_string(message.size()) + " bytes, but it must be at most " +
                                         std::to_string(kMaxMessageBytes) + "; it is not kept");
  }
  const std::lock_guard lock(mutex_);
  bytes_ += message.size();
  messages_.push_back(std::move(message));
  while (messages_.size() > kMaxMessages || bytes_ > kMaxBytes) {
    bytes_ -= messages_.front().size();
    messages_.pop_front();
    ++dropped_;
  }
}

std::vector<std::vector<std::byte>> Mailbox::drain() {
  std::deque<std::vector<std::byte>> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(messages_);
    bytes_ = 0;
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

std::uint64_t Mailbox::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace headrace
