// A bounded first-in-first-out queue of small messages: how roles report to the learner (episodes, timings,
// evaluations).
//
// Messages are numbered, so that one whose answer was lost on the way is neither lost nor doubled: a put that is sent
// again is known by its writer and sequence, and take() keeps what it gave until the next take() says it arrived.
//
// Threading: every method may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/memory_budget.h"
#include "core/mutex.h"
#include "core/writers.h"

namespace headrace {

class Mailbox {
 public:
  static constexpr std::size_t kMaxMessages = 65536;
  static constexpr std::size_t kMaxBytes = 64 << 20;
  static constexpr std::size_t kMaxTakenBytes = 4 << 20;  // of one take(), but for a message that is larger
  static constexpr std::size_t kMaxWriters = 65536;       // remembered; the longest silent go first

  explicit Mailbox(MemoryBudget& budget);  // which outlives it

  // When full, or when the budget has no more, the oldest messages go, if need be this one, and are counted in
  // dropped(). kRefused above 16 MiB. `writer` not 0: a message whose `sequence` is not above the writer's last was put
  // before, and counts for nothing.
  void put(std::span<const std::byte> message, std::uint64_t writer = 0, std::uint64_t sequence = 0);

  struct Messages {
    std::uint64_t epoch;  // of this mailbox, drawn at random: numbers of another one mean nothing here
    std::uint64_t last;   // number of the last message below, or of the last taken
    std::vector<std::vector<std::byte>> messages;
  };
  // Forgets the messages numbered up to `seen`, where `epoch` is this mailbox's, and gives the first of those behind:
  // as many as have `most_bytes` together, but at least one. They stay. None: there are none.
  Messages take(std::uint64_t epoch, std::uint64_t seen, std::size_t most_bytes = kMaxTakenBytes);
  std::vector<std::vector<std::byte>> drain();  // gives and forgets all
  std::uint64_t dropped() const;

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MemoryBudget::Share share;
  };
  void forget_oldest() REQUIRES(mutex_);
  void drop_oldest() REQUIRES(mutex_);  // as that, and counted
  void remember(std::uint64_t writer, std::uint64_t sequence) REQUIRES(mutex_);

  MemoryBudget& budget_;
  const std::uint64_t epoch_;
  mutable Mutex mutex_;
  std::deque<Message> messages_ GUARDED_BY(mutex_);
  std::uint64_t next_number_ GUARDED_BY(mutex_) = 1;  // the last message has next_number_ - 1
  Writers writers_ GUARDED_BY(mutex_){kMaxWriters};
  MemoryBudget::Share writers_share_ GUARDED_BY(mutex_);
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;
  std::uint64_t dropped_ GUARDED_BY(mutex_) = 0;
};

}  // namespace headrace
