// A client of the protocol over the user-space stack: requests are queued, replies are collected.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bypass/interface.h"
#include "bypass/tcp_connection.h"
#include "core/memory_budget.h"
#include "wire/send_queue.h"
#include "wire_fixtures.h"

namespace headrace::testing {

class PolledClient {
 public:
  PolledClient(bypass::Interface& interface, std::uint32_t ip, std::uint16_t port)
      : tcp_(bypass::TcpConnection::connect(interface, ip, port)) {}

  void send(Bytes request) { output_.push(std::move(request)); }
  void hold_input(bool held) { held_ = held; }  // received bytes stay in the stack

  // After the interface was polled and before it is flushed.
  void turn() {
    tcp_->acknowledge_events();
    output_.pop(tcp_->take_acknowledged());
    std::size_t sent = tcp_->in_flight();
    for (const auto buffer : output_.buffers()) {
      const std::size_t skipped = std::min(sent, buffer.size());
      sent -= skipped;
      if (tcp_->write(buffer.subspan(skipped)) < buffer.size() - skipped) break;
    }
    tcp_->push();
    std::array<std::byte, 4096> bytes;
    while (!held_ && tcp_->has_input()) input_ += std::span(bytes).first(tcp_->read(bytes));
  }

  // Whole replies that have arrived since the last call.
  std::vector<Reply> take_replies() {
    std::size_t end = 0;
    while (input_.size() - end >= kFrameHeaderBytes) {
      const auto rest = std::span(input_).subspan(end);
      const std::size_t frame = kFrameHeaderBytes + decode_header(rest.first<kFrameHeaderBytes>(), Limits()).length;
      if (rest.size() < frame) break;
      end += frame;
    }
    const auto replies = replies_in(std::span(input_).first(end));
    input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(end));
    return replies;
  }

  bypass::TcpConnection& tcp() { return *tcp_; }
  bool closed() const { return tcp_->lost() || (tcp_->ended() && !tcp_->has_input()); }

 private:
  MemoryBudget budget_;
  SendQueue output_{budget_};
  std::unique_ptr<bypass::TcpConnection> tcp_;  // destroyed first: it sends the output from where it lies
  Bytes input_;
  bool held_ = false;
};

}  // namespace headrace::testing
