// A bounded first-in-first-out queue of small messages: used by roles to report to the learner (episodes, timings,
// evaluations).
//
// Messages are numbered, so that a lost reply neither loses nor duplicates one: a put that is sent again is recognized
// by its writer and sequence, and take() keeps the messages it returned until the next take() acknowledges them.
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
  static constexpr std::size_t kMaxWriters = 65536;       // remembered; the least recent are forgotten first

  explicit Mailbox(MemoryBudget& budget);  // which outlives it

  // When the mailbox is full or the budget is used up, the oldest messages are dropped, if necessary this one too, and
  // counted as dropped. kRefused above 16 MiB. `writer` not 0: a message whose `sequence` is not above the writer's
  // last is a repetition and is ignored.
  void put(std::span<const std::byte> message, std::uint64_t writer = 0, std::uint64_t sequence = 0);

  struct Messages {
    std::uint64_t epoch;  // of this mailbox, random: sequence numbers of another mailbox are not valid here
    std::uint64_t last;   // number of the last message below, or of the last taken
    std::vector<std::vector<std::byte>> messages;
  };
  // Forgets the messages numbered up to `seen` if `epoch` is this mailbox's, and returns the first of the rest: at most
  // `most_bytes` together, but at least one. They stay in the mailbox. Empty if there are none.
  Messages take(std::uint64_t epoch, std::uint64_t seen, std::size_t most_bytes = kMaxTakenBytes);
  std::vector<std::vector<std::byte>> drain();  // returns and forgets all
  struct Stats {
    std::size_t messages;  // in the mailbox now
    std::size_t bytes;     // of these
    std::uint64_t received;
    std::uint64_t dropped;  // including those for which there was no memory, which were never received
  };
  Stats stats() const;

 private:
  struct Message {
    std::vector<std::byte> bytes;
    MemoryBudget::Share share;
  };
  void forget_oldest() REQUIRES(mutex_);
  void drop_oldest() REQUIRES(mutex_);  // counts it in dropped_
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
