// A shard: a flat slice of a model's parameters, its optimizer state and its version. Gradients are applied to it in
// place.
//
// The version is the number of updates that the slice has had. A gradient's staleness is the number of updates by other
// workers since its worker fetched the parameters it was computed at; the policy decides what happens to a stale one. A
// gradient that is not finite is always refused.
//
// Threading: every method may be called from any thread. One mutex is held for a whole update, fetch or load, so that
// none sees another incomplete: for as long as the memory accesses take. Counters have their own mutex, held for
// microseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "core/huge_array.h"
#include "core/memory_budget.h"
#include "core/mutex.h"
#include "core/shard_options.h"

namespace headrace {

enum class Verdict : std::uint8_t {
  kAccepted = 0,
  kDropped = 1,  // too stale; under kCompensate, computed at parameters that are not kept (any more)
  kRefused = 2,  // not finite
};

// What a worker sends with a gradient.
struct PushedGradient {
  std::uint64_t worker = 0;    // a random number; 0: anonymous
  std::uint64_t sequence = 0;  // increases with every push; if not above the worker's last, the push is a repetition
  std::uint64_t base_version = 0;  // of the parameters that it was computed at
  std::uint64_t own_updates = 0;   // of the updates since, those by this worker
};

struct PushResult {
  std::uint64_t version = 0;  // after it
  std::uint64_t staleness = 0;
  Verdict verdict = Verdict::kAccepted;
};

struct ShardStats {
  static constexpr std::size_t kStalenessBins = 65;

  std::uint64_t version = 0;
  std::uint64_t accepted = 0, dropped = 0, refused = 0;
  double apply_seconds = 0;                                  // spent checking gradients and applying them
  std::array<std::uint64_t, kStalenessBins> staleness = {};  // gradients by it, refused ones too; the last: or more
};

class Shard {
 public:
  static constexpr std::size_t kMaxWorkers = 4096;      // remembered; the least recent are forgotten first
  static constexpr std::size_t kMaxBackups = 256;       // of parameters as a worker fetched them; likewise
  static constexpr std::size_t kBytesEachWorker = 160;  // of memory, rounded up

  // `lane`: shards of different lanes are meant to be worked on by different threads. Throws kInvalid (options),
  // kRefused (the budget, which outlives it; bytes that are not `size` floats).
  Shard(ShardOptions options, std::span<const std::byte> initial, MemoryBudget& budget, std::size_t lane);

  const ShardOptions& options() const { return options_; }
  std::size_t lane() const { return lane_; }
  std::size_t bytes() const { return options_.size * sizeof(float); }  // of parameters
  std::size_t state_bytes() const { return (1 + options_.optimizer.moments()) * bytes(); }
  std::uint64_t version() const { return stats().version; }

  // Applies a gradient of `size` floats at any address, from where it lies where the address is a float's. A gradient
  // that was sent before returns its first result. kRefused: another length. kInvalid: a base version with its own
  // updates above the shard's version.
  PushResult push(const PushedGradient& pushed, std::span<const std::byte> gradient);
  // As push() with a gradient that is not finite: another shard's part of it is not.
  PushResult refuse(const PushedGradient& pushed);
  // Copies the parameters where their version is above `newer_than`, and keeps them for the worker under kCompensate;
  // if the worker's copy is not kept, they are copied in any case. kRefused: there is no memory for the copy.
  std::optional<std::uint64_t> fetch(std::uint64_t worker, std::int64_t newer_than, std::span<std::byte> to);

  // Parameters, then the optimizer state; returns the version, which is also its step count.
  std::uint64_t state(std::span<std::byte> to) const;
  void load(std::uint64_t version, std::span<const std::byte> state);  // kRefused: another length; not finite

  ShardStats stats() const;

 private:
  struct Backup {
    std::uint64_t version;
    HugeArray<float> parameters;
    MemoryBudget::Share share;
  };
  struct Worker {
    std::uint64_t heard = 0;  // when; of clock_
    std::uint64_t sequence = 0;
    PushResult last = {};
    std::unique_ptr<Backup> backup = {};
    MemoryBudget::Share share = {};
  };

  Worker& worker(std::uint64_t name) REQUIRES(mutex_);
  PushResult process(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient) REQUIRES(mutex_);
  PushResult process_once(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient)
      REQUIRES(mutex_);
  const float* backup_of(const PushedGradient& pushed) const REQUIRES(mutex_);
  void back_up(Worker& worker) REQUIRES(mutex_);
  bool forget_backup(const Worker& but) REQUIRES(mutex_);
  void apply(std::span<const std::byte> gradient, std::uint64_t staleness, const float* fetched) REQUIRES(mutex_);
  void count(const PushResult& result, double seconds) EXCLUDES(stats_mutex_);

  const ShardOptions options_;
  const std::size_t lane_;
  MemoryBudget& budget_;
  const MemoryBudget::Share share_;

  mutable Mutex mutex_ ACQUIRED_BEFORE(stats_mutex_);
  HugeArray<float> parameters_ GUARDED_BY(mutex_);
  HugeArray<float> moments_ GUARDED_BY(mutex_);
  std::uint64_t version_ GUARDED_BY(mutex_) = 0;
  std::uint64_t clock_ GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Worker> workers_ GUARDED_BY(mutex_);

  mutable Mutex stats_mutex_;
  ShardStats stats_ GUARDED_BY(stats_mutex_);
};

}  // namespace headrace
