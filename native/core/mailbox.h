// A bounded first-in-first-out queue of small messages: how roles report to the learner (episodes, timings,
// evaluations).
//
// Threading: every method may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace headrace {

class Mailbox {
 public:
  static constexpr std::size_t kMaxMessages = 65536;
  static constexpr std::size_t kMaxBytes = 64 << 20;

  // When full, the oldest messages go, and are counted in dropped(). kRefused above 16 MiB.
  void put(std::vector<std::byte> message);
  std::vector<std::vector<std::byte>> drain();
  std::uint64_t dropped() const;

 private:
  mutable std::mutex mutex_;
  std::deque<std::vector<std::byte>> messages_;
  std::size_t bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace headrace
