#include "io/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace headrace {
namespace {

using Outcome = Transport::Outcome;

// Drops `count` bytes from the front of `parts`.
std::span<iovec> skip(std::span<iovec> parts, std::size_t count) {
  while (!parts.empty() && count >= parts.front().iov_len) {
    count -= parts.front().iov_len;
    parts = parts.subspan(1);
  }
  if (!parts.empty()) {
    parts.front().iov_base = static_cast<std::byte*>(parts.front().iov_base) + count;
    parts.front().iov_len -= count;
  }
  return parts;
}

}  // namespace

Stream::Stream(std::unique_ptr<Transport> transport, ClientNetwork& network, Interrupt interrupt)
    : transport_(std::move(transport)), network_(network), interrupt_(std::move(interrupt)) {}

void Stream::shut() {
  open_.store(false);
  transport_->shut();
}

void Stream::throw_lost(const std::string& what) {
  shut();
  throw ConnectionLost(what);
}

void Stream::after_silence(Silence& silence, std::chrono::milliseconds longest) {
  try {
    if (interrupt_) interrupt_();
  } catch (...) {
    shut();
    throw;
  }
  if (!is_open()) throw_lost("the connection is closed");
  if (silence.look(network_.now()) >= longest) {
    throw_lost("no answer within " + std::to_string(timeout_.count()) + " ms; the connection is closed");
  }
}

void Stream::send(std::span<const std::span<const std::byte>> parts) {
  std::array<iovec, kMaxParts> storage;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    storage[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  auto left = skip(std::span(storage).first(parts.size()), 0);
  Silence silence(network_.now());
  while (!left.empty()) {
    if (!is_open()) throw_lost("the connection is closed");
    const auto sent = transport_->send(left);
    switch (sent.outcome) {
      case Outcome::kMoved:
        left = skip(left, sent.bytes);
        if (!left.empty()) silence = Silence(network_.now());
        break;
      case Outcome::kNothing:
        after_silence(silence, timeout_);
        break;
      case Outcome::kHungUp:
        return;
      case Outcome::kFailed:
        throw_lost(std::strerror(sent.error));
    }
  }
}

Transport::Event Stream::wait(Waker& waker, std::chrono::milliseconds longest) {
  if (ahead_begin_ < ahead_end_) return Transport::Event::kInput;
  return transport_->wait(waker, longest);
}

std::size_t Stream::take_ahead(std::span<std::byte> part) {
  const std::size_t count = std::min(part.size(), ahead_end_ - ahead_begin_);
  std::copy_n(ahead_.begin() + static_cast<std::ptrdiff_t>(ahead_begin_), count, part.begin());
  ahead_begin_ += count;
  return count;
}

Transport::Transfer Stream::receive_some(std::span<iovec> parts) {
  try {
    return transport_->receive(parts);
  } catch (const Error&) {
    shut();
    throw;
  }
}

void Stream::receive(std::span<const std::span<std::byte>> parts, std::chrono::milliseconds wait) {
  std::array<iovec, kMaxParts + 1> storage;  // one more for what comes behind
  std::size_t needed = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t count = take_ahead(parts[i]);
    storage[i] = {parts[i].data() + count, parts[i].size() - count};
    needed += parts[i].size() - count;
  }
  storage[parts.size()] = {ahead_.data(), ahead_.size()};
  auto left = std::span(storage).first(parts.size() + 1);
  const auto started = network_.now();
  Silence silence(started);
  auto longest = timeout_ + wait;
  transport_->await_reply(started);
  while (needed > 0) {  // then nothing is left in ahead_
    left = skip(left, 0);
    const auto received = receive_some(left);
    switch (received.outcome) {
      case Outcome::kMoved: {
        const std::size_t taken = std::min(needed, received.bytes);
        needed -= taken;
        left = skip(left, taken);
        ahead_begin_ = 0;
        ahead_end_ = received.bytes - taken;
        if (needed > 0) silence = Silence(network_.now());
        longest = timeout_;
        break;
      }
      case Outcome::kNothing:
        after_silence(silence, longest);
        break;
      case Outcome::kHungUp:
        throw_lost("the connection is closed");
      case Outcome::kFailed:
        throw_lost(std::strerror(received.error));
    }
  }
}

}  // namespace headrace
