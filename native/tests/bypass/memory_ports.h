// Two ports that are connected by memory, on a clock that the test advances. The test says which frames are lost.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "bypass/port.h"
#include "core/table.h"

extern "C" {
#include <lwip/pbuf.h>
}

namespace headrace::testing {

// The stack's time, for all tests of a process: it never goes back. A machine that runs for weeks begins like this.
inline Deadline& stack_clock() {
  static Deadline now = Deadline() + std::chrono::hours(1000);
  return now;
}

using Frame = std::vector<std::byte>;

// One direction.
struct FrameQueue {
  std::deque<Frame> frames;
  std::function<bool(Frame&)> passes = [](Frame&) { return true; };  // false: the frame is lost
  std::size_t held = 0;                                              // that the receiving stack has not freed
};

// A frame that the stack holds.
struct HeldFrame : pbuf_custom {
  static ::pbuf* wrap(Frame bytes, const std::shared_ptr<FrameQueue>& queue) {
    auto* const held = new HeldFrame{{}, std::move(bytes), queue};
    held->custom_free_function = [](::pbuf* frame) {
      const std::unique_ptr<HeldFrame> freed(static_cast<HeldFrame*>(reinterpret_cast<pbuf_custom*>(frame)));
      --freed->queue->held;
    };
    ++queue->held;
    const auto size = static_cast<u16_t>(held->bytes.size());
    return pbuf_alloced_custom(PBUF_RAW, size, PBUF_REF, held, held->bytes.data(), size);
  }

  Frame bytes;
  std::shared_ptr<FrameQueue> queue;
};

class MemoryPort : public bypass::Port {
 public:
  MemoryPort(std::uint8_t number, std::shared_ptr<FrameQueue> in, std::shared_ptr<FrameQueue> out,
             std::shared_ptr<bool> connected)
      : number_(number), in_(std::move(in)), out_(std::move(out)), connected_(std::move(connected)) {}

  bypass::MacAddress mac() const override { return {0x02, 0, 0, 0, 0, number_}; }

  std::size_t receive(std::span<pbuf*, kBurst> frames) override {
    std::size_t count = 0;
    for (; *connected_ && count < kBurst && !in_->frames.empty(); in_->frames.pop_front()) {
      frames[count++] = HeldFrame::wrap(std::move(in_->frames.front()), in_);
    }
    return count;
  }

  bool send(const pbuf& frame) override {
    Frame bytes(frame.tot_len);
    pbuf_copy_partial(&frame, bytes.data(), frame.tot_len, 0);
    if (*connected_ && out_->passes(bytes)) out_->frames.push_back(std::move(bytes));
    return true;
  }

  void flush() override {}
  bool connected() override { return *connected_; }

 private:
  const std::uint8_t number_;
  const std::shared_ptr<FrameQueue> in_, out_;
  const std::shared_ptr<bool> connected_;
};

struct MemoryWire {
  std::shared_ptr<FrameQueue> to_server = std::make_shared<FrameQueue>();
  std::shared_ptr<FrameQueue> to_client = std::make_shared<FrameQueue>();
  std::shared_ptr<bool> connected = std::make_shared<bool>(true);

  std::unique_ptr<bypass::Port> server_port() const {
    return std::make_unique<MemoryPort>(1, to_server, to_client, connected);
  }
  std::unique_ptr<bypass::Port> client_port() const {
    return std::make_unique<MemoryPort>(2, to_client, to_server, connected);
  }
};

}  // namespace headrace::testing
