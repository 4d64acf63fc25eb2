// A table of experience: chunks in an arena, one leaf of a sum tree per transition, a rate limiter.
//
// A transition's key is its number since the table began. key % capacity is its slot, key / capacity the slot's
// generation, so an update for an overwritten transition is recognized and dropped, never applied to its successor.
//
// Threading: every method may be called from any thread. One mutex guards tree, limiter, slots, counters and random
// state, and is held for microseconds. Copies run outside it: an insert copies into reserved bytes (one insert at a
// time, under a second mutex, which is held over nothing but that) and publishes afterwards; a sample draws its keys
// under the mutex, pins the oldest of them, gathers, and unpins. An insert that has to overwrite pinned transitions
// excludes them from sampling at once, and waits until the gather has finished (try_insert is refused until then).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/rate_limiter.h"
#include "core/signature.h"

namespace headrace {

enum class Sampler : std::uint8_t { kPrioritized, kUniform };

struct TableOptions {
  Signature signature = {};
  std::uint64_t capacity = 1'000'000;  // transitions
  // Arena budget. 0: room for `capacity` transitions in chunks of 50 steps (of 8 where a frame is at most 1 KiB, so
  // that short episodes cost no capacity either), and two chunks more.
  std::uint64_t capacity_bytes = 0;
  Sampler sampler = Sampler::kPrioritized;
  double priority_exponent = 0.6;  // alpha, applied when a priority is written
  LimiterOptions limiter = {};
  std::uint64_t seed = 0;
  std::string path = {};  // empty: heap

  // All but `path` as text, two lines: "capacity=1000;...", then the signature. decode() throws kCorrupt; the table's
  // constructor checks the values.
  std::string encode() const;
  static TableOptions decode(std::string_view text);
};

// Caller's memory for one batch of B transitions. Null pointers are skipped.
struct BatchView {
  std::uint32_t size = 0;                 // B
  std::byte* observation = nullptr;       // [B, K, *O]
  std::byte* next_observation = nullptr;  // [B, K, *O]
  std::byte* action = nullptr;            // [B, *A]
  float* reward = nullptr;                // [B]
  float* discount = nullptr;              // [B]
  float* weight = nullptr;                // [B] (N P)^-beta over the batch's largest (Schaul et al. 2016, section 3.4)
  float* probability = nullptr;           // [B]
  std::uint64_t* key = nullptr;           // [B]
  std::uint64_t* policy_version = nullptr;  // [B]
};

struct TableStats {
  std::uint64_t size, capacity, inserts, samples, updates, dropped_updates, evicted, chunks;
  std::uint64_t used_bytes, capacity_bytes;
  double samples_per_insert;                              // of transitions, since the table reached min_size
  double insert_blocked_seconds, sample_blocked_seconds;  // each from a refusal until the limiter allowed it again
  double max_priority, total_weight;
  std::uint64_t recovered;  // transitions found in the file at open
  std::uint64_t lost;       // and those known to have been there that could not be read; see Arena::lost()
  bool paused, closed;
};

using Deadline = std::chrono::steady_clock::time_point;
inline Deadline never() { return Deadline::max(); }

struct DrawnKeys;

class Table {
 public:
  class Draw;

  explicit Table(TableOptions options);  // throws kInvalid naming the setting
  ~Table();

  const TableOptions& options() const;
  std::uint64_t size() const;

  // Stores a chunk after check_chunk(). The oldest chunks are evicted when slots or bytes run out. Returns the key of
  // the first transition; nullopt if the limiter blocks inserts, readers pin what must be evicted or another insert is
  // under way (try_insert, which never waits), or if the limiter blocked until the deadline (insert). Throws
  // kChunkRefused (does not fit signature, arena or capacity), kClosed.
  //
  // A chunk whose writer has already sent that sequence, or a later one, is stored already: it is ignored,
  // independently of the limiter, and the key is that of the writer's last chunk. The 65,536 most recent writers are
  // remembered (in smaller tables as many as `capacity`, at least 1,024), including those of chunks from a file or a
  // snapshot.
  std::optional<std::uint64_t> try_insert(std::span<const std::byte> chunk);
  std::optional<std::uint64_t> insert(std::span<const std::byte> chunk, Deadline deadline);

  // Draws B transitions, stratified: one from each B-th of the total weight (prioritized) or of the stored
  // transitions (uniform). `importance_exponent` is beta, finite and >= 0. False where there are too few or the limiter
  // holds. Of a prioritized table, some thousand are drawn at a time, between which other calls may come: each with its
  // probability when it is drawn.
  bool try_sample(const BatchView& batch, double importance_exponent);
  bool sample(const BatchView& batch, double importance_exponent, Deadline deadline);
  // As try_sample(), but only draws: null where that is false. The memory of `batch` and the table outlive the result.
  std::unique_ptr<Draw> try_draw(const BatchView& batch, double importance_exponent);

  // Sets priorities as check_priorities() requires (none is applied otherwise). Keys that are no longer stored are
  // dropped. Returns how many were applied. The priority is also written into the chunk, so that a snapshot or a file
  // carries it. A leaf weighs max(priority, 1e-6)^alpha: priority 0 stays samplable, barely. Many are applied some
  // thousands at a time, between which other calls may come, also close().
  std::uint64_t update_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities);
  // Throws kInvalid unless all are finite and >= 0, naming the first that is not.
  static void check_priorities(std::span<const float> priorities);

  // Holds back inserts (and only these) while training is paused.
  void set_paused(bool paused);
  // Wakes all waiting callers; every later insert, sample and update throws kClosed until reopen(). The contents can
  // still be saved.
  void close();
  void reopen();       // undoes close(); throws kClosed after retire()
  void retire();       // closes it for good
  void flush() const;  // writes the file to the disk; throws kSystem naming it
  // Called, without any lock held, whenever a refused insert or sample may succeed now, and at close(). For I/O loops.
  // After remove_waker() has returned, the function is not running and will not be called again. It must not throw or
  // remove itself.
  using Wake = std::function<void()>;
  std::uint64_t add_waker(Wake wake);
  void remove_waker(std::uint64_t id);

  // A snapshot: chunks with their current priorities, counters, random state. restore() needs a table that never held
  // transitions (kInvalid), with the same signature and capacity (kMismatch); where capacity_bytes and the settings
  // agree too, both tables then give the same answers to the same calls. kCorrupt and kSystem name the file, and leave
  // the table empty. save() writes `path` directly (the caller makes it atomic) and fsyncs; inserts go on meanwhile,
  // but wait before they overwrite what is not written yet.
  void save(const std::string& path) const;
  void restore(const std::string& path);

  TableStats stats() const;
  // The most memory it can use: arena, slots, tree and writers. Also for a table that is not made yet; throws as its
  // constructor would.
  std::uint64_t memory_bytes() const { return memory_bytes(options()); }
  static std::uint64_t memory_bytes(const TableOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A batch that is drawn, and gathered a part at a time: a large one takes long. Until it is destroyed, inserts that
// would overwrite its transitions are held back.
class Table::Draw {
 public:
  ~Draw();
  Draw(const Draw&) = delete;
  Draw& operator=(const Draw&) = delete;

  std::uint64_t transition_bytes() const;  // that gather() copies for each
  // Gathers the next transitions, or draws some thousand keys more once all drawn are gathered. True once all are
  // there.
  bool gather(std::size_t most);
  void gather_all();

 private:
  friend struct Table::Impl;
  Draw(Impl& table, const BatchView& batch, double importance_exponent);
  void prepare(std::size_t begin);  // gathering, for the keys from the `begin`-th on

  Impl& table_;
  const BatchView batch_;
  const double importance_exponent_;
  std::unique_ptr<DrawnKeys> drawn_;
  std::optional<std::size_t> pin_;
  std::size_t gathered_ = 0;  // transitions
};

}  // namespace headrace
