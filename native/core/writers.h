// What each writer sent last, to recognize repetitions. Bounded: beyond the limit, the writers that have been silent
// longest are forgotten.
//
// Threading: not thread-safe. The owner guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>

namespace headrace {

class Writers {
 public:
  static constexpr std::size_t kBytesEach = 128;  // of memory, rounded up

  struct Last {
    std::uint64_t writer, sequence;
    std::uint64_t key;  // under which it was stored
  };

  explicit Writers(std::size_t limit);  // at least 1

  std::size_t size() const { return places_.size(); }
  std::size_t limit() const { return limit_; }
  // O(1); null if it is unknown. Invalid after the next change.
  const Last* find(std::uint64_t writer) const;
  // The writer's last if `sequence` is not above it, so that it was sent before. Null for writer 0, which stands for
  // none.
  const Last* repeated(std::uint64_t writer, std::uint64_t sequence) const;
  void remember(const Last& last);  // O(1)
  void forget_longest_silent();     // size() must not be 0
  void clear();

 private:
  // Seeded, so that a peer cannot choose names that all fall into one bucket.
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(std::uint64_t writer) const {
      const std::uint64_t mixed = (writer ^ seed) * 0x9e3779b97f4a7c15;
      return mixed ^ mixed >> 32;
    }
  };

  std::size_t limit_;
  std::list<Last> by_silence_;  // the most recent writer is last
  std::unordered_map<std::uint64_t, std::list<Last>::iterator, Hash> places_;
};

}  // namespace headrace
