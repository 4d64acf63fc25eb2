// The implementation of Table, shared by its source files.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/chunk.h"
#include "core/max_tree.h"
#include "core/mutex.h"
#include "core/random.h"
#include "core/rate_limiter.h"
#include "core/sum_tree.h"
#include "core/table.h"
#include "core/transitions.h"
#include "core/wakers.h"
#include "core/writers.h"

namespace headrace {

// Seconds for which one side was held: from a refusal until it was allowed again.
class HeldClock {
 public:
  bool holding() const { return since_.has_value(); }
  void hold() {
    if (!since_) since_ = std::chrono::steady_clock::now();
  }
  void allow() {
    seconds_ = seconds();
    since_.reset();
  }
  double seconds() const {
    if (!since_) return seconds_;
    return seconds_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - *since_).count();
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
  double seconds_ = 0;
};

// Keys from which readers read: nothing at or after the oldest of them is released.
class Pins {
 public:
  static constexpr std::uint64_t kFree = std::numeric_limits<std::uint64_t>::max();

  std::size_t add(std::uint64_t key) {
    const auto free = std::find(keys_.begin(), keys_.end(), kFree);
    if (free == keys_.end()) {
      keys_.push_back(key);
      return keys_.size() - 1;
    }
    *free = key;
    return static_cast<std::size_t>(free - keys_.begin());
  }
  void move(std::size_t pin, std::uint64_t key) { keys_[pin] = key; }
  void remove(std::size_t pin) { keys_[pin] = kFree; }
  std::uint64_t oldest() const { return keys_.empty() ? kFree : *std::min_element(keys_.begin(), keys_.end()); }

 private:
  std::vector<std::uint64_t> keys_;
};

// Consecutive slots of consecutive keys: `count` from `slot`, for the keys from the `offset`-th on.
struct SlotRun {
  std::uint64_t slot;
  std::size_t offset, count;
};

struct TableCounters {
  std::uint64_t inserts = 0, samples = 0, updates = 0, dropped_updates = 0, evicted = 0;
};

TableOptions checked(TableOptions options);  // table_options.cc: throws kInvalid; capacity_bytes filled in

// How many writers a table remembers: fewer in small tables, to keep their memory in proportion.
constexpr std::size_t writers_limit(std::uint64_t capacity) { return std::clamp<std::uint64_t>(capacity, 1024, 65536); }

struct Table::Impl {
  class InsertTurn;
  struct Attempt {  // to store a chunk
    std::optional<std::uint64_t> key;
    bool pinned = false;  // readers hold what must go; else it is the limiter that holds
    bool wake = false;    // wakers must be called
  };

  explicit Impl(TableOptions checked_options);

  bool prioritized() const { return options.sampler == Sampler::kPrioritized; }

  // What is read and written without `mutex`: bytes that are reserved (by the insert whose turn it is) or pinned, which
  // stay where they are, and the arena's size. The analysis knows no such part of an object.
  const Transitions& stored() const NO_THREAD_SAFETY_ANALYSIS { return transitions; }
  Transitions& reserved() REQUIRES(insert_mutex) NO_THREAD_SAFETY_ANALYSIS { return transitions; }

  // table.cc
  bool may_insert() const REQUIRES(mutex);  // throws kClosed
  bool may_sample(std::uint64_t batch) const REQUIRES(mutex);
  bool end_holds() REQUIRES(mutex);  // after a change: ends holds that are over; true if wakers must be called
  void check_fits(const ChunkHeader& header) const;  // kChunkRefused where the chunk can never be stored
  void remember(const ChunkHeader& header, std::uint64_t key) REQUIRES(insert_mutex);  // the writer
  // Releases `mutex` for a time. Nullopt where readers hold what must go; they will wake.
  std::optional<std::uint64_t> store(std::span<const std::byte> chunk, const ChunkHeader& header)
      REQUIRES(insert_mutex, mutex);
  std::optional<std::size_t> make_room(const ChunkHeader& header) REQUIRES(insert_mutex, mutex);
  bool pinned() const REQUIRES(mutex) { return pins.oldest() < transitions.oldest_key(); }
  bool unpinned_one() REQUIRES(mutex);  // after a change of pins: true if wakers must be called
  void evict_oldest() REQUIRES(mutex);
  std::array<SlotRun, 2> slots_of(std::uint64_t first_key, std::uint64_t steps) const;
  float max_priority() const REQUIRES(mutex);
  void weigh(const float* priorities, std::uint32_t steps) REQUIRES(insert_mutex);  // fills `weights`
  void index(std::uint64_t first_key) REQUIRES(insert_mutex, mutex);                // fills the trees
  // False where another insert has the turn: wakers are called when that ends. The analysis can't follow two attempts.
  bool try_take_turn() TRY_ACQUIRE(true, insert_mutex) EXCLUDES(mutex) NO_THREAD_SAFETY_ANALYSIS;
  Attempt attempt(std::span<const std::byte> chunk, const ChunkHeader& header) REQUIRES(insert_mutex) EXCLUDES(mutex);
  std::optional<std::uint64_t> try_insert(std::span<const std::byte> chunk) EXCLUDES(insert_mutex, mutex);
  std::optional<std::uint64_t> insert(std::span<const std::byte> chunk, Deadline deadline)
      EXCLUDES(insert_mutex, mutex);
  double leaf_weight(float priority) const;
  void close(bool for_good) EXCLUDES(mutex);
  TableStats stats() const EXCLUDES(mutex);

  // table_sampling.cc
  std::unique_ptr<Draw> draw(const BatchView& batch, double importance_exponent, std::optional<Deadline> deadline)
      EXCLUDES(mutex);
  void draw_on(Draw& draw) EXCLUDES(mutex);
  void draw_keys(Draw& draw) REQUIRES(mutex);  // the next ones, which it pins instead of those before
  void unpin(std::size_t pin) EXCLUDES(mutex);

  // table_updates.cc
  std::uint64_t update(std::span<const std::uint64_t> keys, std::span<const float> new_priorities) EXCLUDES(mutex);
  std::uint64_t update_some(std::span<const std::uint64_t> keys, std::span<const float> new_priorities) EXCLUDES(mutex);

  // table_snapshot.cc
  void save(const std::string& path) EXCLUDES(mutex);
  void restore(const std::string& path) EXCLUDES(insert_mutex, mutex);

  const TableOptions options;

  Mutex insert_mutex ACQUIRED_BEFORE(mutex);             // one insert at a time
  std::vector<double> weights GUARDED_BY(insert_mutex);  // leaf weights of the chunk being inserted
  Writers writers GUARDED_BY(insert_mutex);

  mutable Mutex mutex;
  ConditionVariable insert_allowed, sample_allowed, unpinned;
  Transitions transitions GUARDED_BY(mutex);      // changed under insert_mutex, too
  std::optional<SumTree> tree GUARDED_BY(mutex);  // of leaf weights; prioritized() only
  MaxTree priorities GUARDED_BY(mutex);           // as stored, by slot
  RateLimiter limiter GUARDED_BY(mutex);
  Random random GUARDED_BY(mutex);
  Pins pins GUARDED_BY(mutex);
  bool insert_parked GUARDED_BY(mutex) = false;  // a refused insert waits for pins
  bool turn_awaited GUARDED_BY(mutex) = false;   // and one for the insert that was under way
  bool paused GUARDED_BY(mutex) = false;
  bool closed GUARDED_BY(mutex) = false;
  bool retired GUARDED_BY(mutex) = false;
  HeldClock insert_held GUARDED_BY(mutex);
  HeldClock sample_held GUARDED_BY(mutex);
  std::uint64_t held_batch GUARDED_BY(mutex) = 0;  // the smallest batch refused, while sample_held holds
  TableCounters counters GUARDED_BY(mutex);
  std::uint64_t recovered GUARDED_BY(mutex) = 0;

  Wakers wakers;
};

// Holds `insert_mutex`, which the caller has taken, and wakes those that were refused meanwhile.
class SCOPED_CAPABILITY Table::Impl::InsertTurn {
 public:
  explicit InsertTurn(Impl& table) REQUIRES(table.insert_mutex) : table_(table) {}
  ~InsertTurn() RELEASE();
  InsertTurn(const InsertTurn&) = delete;
  InsertTurn& operator=(const InsertTurn&) = delete;

 private:
  Impl& table_;
};

}  // namespace headrace
