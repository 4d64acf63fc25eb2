#include "core/mailbox.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "core/entropy.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;

}  // namespace

Mailbox::Mailbox(MemoryBudget& budget) : budget_(budget), epoch_(draw_entropy()) {}

void Mailbox::forget_oldest() {
  bytes_ -= messages_.front().bytes.size();
  messages_.pop_front();
}

void Mailbox::drop_oldest() {
  forget_oldest();
  ++dropped_;
}

void Mailbox::remember(std::uint64_t writer, std::uint64_t sequence) {
  if (writer == 0) return;
  if (writers_.size() < writers_.limit() && writers_.find(writer) == nullptr) {
    if (auto share = budget_.try_take(Writers::kBytesEach)) {
      writers_share_.add(std::move(*share));
    } else if (writers_.size() > 0) {
      writers_.forget_longest_silent();  // its memory serves the new one
    } else {
      return;
    }
  }
  writers_.remember({writer, sequence, next_number_});
}

void Mailbox::put(std::span<const std::byte> message, std::uint64_t writer, std::uint64_t sequence) {
  const std::size_t size = message.size();
  if (size > kMaxMessageBytes) {
    throw Error(ErrorKind::kRefused, "message: " + std::to_string(size) + " bytes, but it must be at most " +
                                         std::to_string(kMaxMessageBytes) + "; it is not kept");
  }
  auto share = budget_.try_take(size + sizeof(Message));
  std::vector<std::byte> bytes;
  if (share) bytes.assign(message.begin(), message.end());  // before the lock: it may be large
  const LockGuard lock(mutex_);
  if (writers_.repeated(writer, sequence) != nullptr) return;
  while (!messages_.empty() && (messages_.size() >= kMaxMessages || bytes_ + size > kMaxBytes)) drop_oldest();
  while (!share && !messages_.empty()) {
    drop_oldest();
    share = budget_.try_take(size + sizeof(Message));
  }
  if (share && bytes.empty()) bytes.assign(message.begin(), message.end());
  remember(writer, sequence);
  if (!share) {
    ++dropped_;
    return;
  }
  messages_.push_back({std::move(bytes), std::move(*share)});
  bytes_ += size;
  ++next_number_;
}

Mailbox::Messages Mailbox::take(std::uint64_t epoch, std::uint64_t seen, std::size_t most_bytes) {
  const LockGuard lock(mutex_);
  const std::uint64_t first = next_number_ - messages_.size();
  if (epoch == epoch_ && seen >= first) {
    for (std::uint64_t count = std::min<std::uint64_t>(seen - first + 1, messages_.size()); count > 0; --count) {
      forget_oldest();
    }
  }
  Messages taken{epoch_, next_number_ - messages_.size() - 1, {}};
  std::size_t bytes = 0;
  for (const Message& message : messages_) {
    bytes += message.bytes.size();
    if (bytes > most_bytes && !taken.messages.empty()) break;
    taken.messages.push_back(message.bytes);
    ++taken.last;
  }
  return taken;
}

std::vector<std::vector<std::byte>> Mailbox::drain() {
  std::deque<Message> taken;
  {
    const LockGuard lock(mutex_);
    taken.swap(messages_);
    bytes_ = 0;
  }
  std::vector<std::vector<std::byte>> messages;
  messages.reserve(taken.size());
  for (Message& message : taken) messages.push_back(std::move(message.bytes));
  return messages;
}

Mailbox::Stats Mailbox::stats() const {
  const LockGuard lock(mutex_);
  return {messages_.size(), bytes_, next_number_ - 1, dropped_};
}

}  // namespace headrace
