// A shard: a flat slice of a model's parameters, its optimizer state and its version. Gradients are applied to it in
// place.
//
// The version is the number of updates that the slice has had. A gradient's staleness is the number of updates by other
// workers since its worker fetched the parameters it was computed at; the policy decides what happens to a stale one. A
// gradient that is_gradient() refuses, as it was sent or after its compensation, is always refused.
//
// A shard may be kept in a file. The next server restores its last image: parameters, optimizer state, version, and the
// last push of every worker. Where updates were made since, they are lost, and the version continues above the highest
// that was ever reached: no version ever denotes two sets of parameters, and every worker finds newer ones.
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
#include "core/shard_file.h"
#include "core/shard_image.h"
#include "core/shard_options.h"

namespace headrace {

enum class Verdict : std::uint8_t {
  kAccepted = 0,
  kDropped = 1,  // too stale; computed at parameters that the shard never had or, under kCompensate, does not keep
  kRefused = 2,  // not finite or too large, as it was sent or after its compensation
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
  std::uint64_t saved_version = 0;  // of the last image in its file
  std::uint64_t lost = 0;           // updates that were lost with earlier servers
  std::uint64_t accepted = 0, dropped = 0, refused = 0;
  double apply_seconds = 0;                                  // spent checking gradients and applying them
  std::array<std::uint64_t, kStalenessBins> staleness = {};  // gradients by it, refused ones too; the last: or more
};

class Shard {
 public:
  static constexpr std::size_t kMaxWorkers = ShardFile::kMaxWorkers;  // remembered; the least recent go first
  static constexpr std::size_t kMaxBackups = 256;       // of parameters as a worker fetched them; likewise
  static constexpr std::size_t kBytesEachWorker = 160;  // of memory, rounded up

  // `lane`: shards of different lanes are meant to be worked on by different threads. Throws kInvalid (options),
  // kRefused (the budget, which outlives it; bytes that are not `size` floats).
  Shard(ShardOptions options, std::span<const std::byte> initial, MemoryBudget& budget, std::size_t lane);

  const ShardOptions& options() const { return options_; }
  std::size_t lane() const { return lane_; }
  std::size_t bytes() const { return options_.size * sizeof(float); }  // of parameters
  std::size_t state_bytes() const { return options_.state_bytes(); }
  std::uint64_t version() const { return stats().version; }

  // Applies a gradient of `size` floats at any address, from where it lies where the address is a float's. A gradient
  // that was sent before returns its first result. kRefused: another length.
  PushResult push(const PushedGradient& pushed, std::span<const std::byte> gradient);
  // As push() with a gradient that is refused: another shard's part of it is.
  PushResult refuse(const PushedGradient& pushed);
  // Copies the parameters where `newer_than` is not their version, and keeps them for the worker under kCompensate; if
  // the worker's copy is not kept, they are copied in any case. A higher version than the shard's is of parameters that
  // were lost with their disk. kRefused: there is no memory for the copy.
  std::optional<std::uint64_t> fetch(std::uint64_t worker, std::int64_t newer_than, std::span<std::byte> to);

  // Parameters, then the optimizer state; returns the step count, which is the version where no update was ever lost.
  std::uint64_t state(std::span<std::byte> to) const;
  void load(std::uint64_t steps, std::span<const std::byte> state);  // kRefused: another length; not finite

  // Continues from an image of the same options. `latest`: the highest version that was reached after it, if that is
  // known. kCorrupt: an image that no shard has made. kRefused: the budget.
  void restore(const ShardImage& image, std::optional<std::uint64_t> latest);
  // Everything of the shard, in memory of state_bytes().
  ShardImage image(std::span<std::byte> memory) const;
  // The file notes every version from the next one on, and save() writes to it. Null: no file does.
  void keep_in(std::shared_ptr<ShardFile> file);
  // Writes an image, if anything has changed since the last one. Updates wait while it is copied to `memory`, which has
  // state_bytes(), but not while it is written. One thread at a time. Throws kSystem.
  void save(std::span<std::byte> memory);
  std::shared_ptr<ShardFile> file() const;  // null: it is in no file

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
    std::optional<PushResult> last = {};  // none: it has only fetched
    std::unique_ptr<Backup> backup = {};
    MemoryBudget::Share share = {};
  };

  Worker& worker(std::uint64_t name) REQUIRES(mutex_);
  PushResult process(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient) REQUIRES(mutex_);
  PushResult process_once(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient)
      REQUIRES(mutex_);
  const float* backup_of(const PushedGradient& pushed) const REQUIRES(mutex_);
  template <typename Visit>
  bool in_compensated_pieces(std::span<const std::byte> gradient, const float* fetched, Visit visit) const
      REQUIRES(mutex_);
  bool is_applicable(std::span<const std::byte> gradient, const float* fetched) const REQUIRES(mutex_);
  void back_up(Worker& worker) REQUIRES(mutex_);
  bool forget_backup(const Worker& but) REQUIRES(mutex_);
  void apply(std::span<const std::byte> gradient, std::uint64_t staleness, const float* fetched) REQUIRES(mutex_);
  void replace(std::span<const std::byte> state, std::uint64_t steps) REQUIRES(mutex_);
  void note_version(std::uint64_t version) REQUIRES(mutex_);
  ShardImage copy(std::span<std::byte> memory) const REQUIRES(mutex_);
  void count(const PushResult& result, double seconds) EXCLUDES(stats_mutex_);

  const ShardOptions options_;
  const std::size_t lane_;
  MemoryBudget& budget_;
  const MemoryBudget::Share share_;

  mutable Mutex mutex_ ACQUIRED_BEFORE(stats_mutex_);
  HugeArray<float> parameters_ GUARDED_BY(mutex_);
  HugeArray<float> moments_ GUARDED_BY(mutex_);
  std::uint64_t version_ GUARDED_BY(mutex_) = 0;
  std::uint64_t steps_ GUARDED_BY(mutex_) = 0;  // of the optimizer
  std::uint64_t lost_ GUARDED_BY(mutex_) = 0;
  std::shared_ptr<ShardFile> file_ GUARDED_BY(mutex_);
  std::uint64_t changes_ GUARDED_BY(mutex_) = 1, saved_changes_ GUARDED_BY(mutex_) = 0;
  // Which change was a load to a higher version that is not saved, or 0. Until it is, the file notes no version: a
  // server that is killed before has lost no updates, and the load is repeated.
  std::uint64_t loaded_at_ GUARDED_BY(mutex_) = 0;
  std::uint64_t clock_ GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Worker> workers_ GUARDED_BY(mutex_);

  mutable Mutex stats_mutex_;
  ShardStats stats_ GUARDED_BY(stats_mutex_);
};

}  // namespace headrace
