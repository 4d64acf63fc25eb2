// One model in memory that the worker processes of a machine share: its parameters and its optimizer state.
//
// Three ways to share:
// - lock: one set of parameters; a worker that applies a gradient, or reads, holds the model's lock. (A worker that
//   reads the live parameters without read_into() sees updates half done, as with hogwild.)
// - hogwild (Recht et al. 2011): one set of parameters that all workers read and write without any lock. The race is
//   intended: a reader may see some parameters before an update and some after it, and of two updates at once one may
//   be lost for some parameters. A float is never torn: it is aligned and written whole. Counters are atomic and exact.
// - ad-psgd (Lian et al. 2018): each worker has its own parameters and optimizer state, changed under the worker's
//   lock. From time to time it averages its parameters with a neighbor's, and both get the mean; the two locks are
//   taken in the order of the workers' numbers. A worker computes gradients from its live parameters, and so may see an
//   average half done. With an L1 penalty this is the decentralized proximal gradient method (Zeng, Yin 2018,
//   Prox-DGD): every update ends with the penalty's proximal operator, on a worker's own parameters after it averaged
//   them.
// The optimizer state is shared, or each worker has its own, including the steps that Adam's corrections count.
//
// A worker that is killed while it holds a lock blocks no other (robust_mutex.h). An update that it left half done
// stays as it is. One that is stopped (SIGSTOP) meanwhile blocks the other workers, but not those who supervise: a call
// without a worker's number and state() read after kPatience without the lock.
//
// Threading: any number of threads and processes at once, but one at a time for each worker; format() and load() only
// while no other thread or process uses the model.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/optimizer.h"

namespace headrace {

enum class Sharing : std::uint32_t { kLock, kHogwild, kAdPsgd };
Sharing sharing_of(std::string_view name);  // "lock", "hogwild", "ad-psgd"; throws kInvalid

struct SharedModelOptions {
  OptimizerOptions optimizer;
  Sharing sharing = Sharing::kLock;
  bool own_optimizer_state = false;  // always true for ad-psgd
  std::uint32_t workers = 1;
  std::uint64_t count = 0;  // P: of parameters
  double l1_penalty = 0.0;  // of ad-psgd: weight of the sum of all magnitudes in the loss

  static constexpr std::uint32_t kMaxWorkers = 4096;
  static constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 31;

  void check() const;  // throws kInvalid, naming the field
};

class SharedModel {
 public:
  // Of one that supervises, for a lock: far longer than any update takes.
  static constexpr std::chrono::seconds kPatience{1};

  static std::uint64_t bytes(const SharedModelOptions& options);  // that format() needs; of checked options
  // Makes a model in zeroed memory, at the start of a page.
  static void format(std::span<std::byte> memory, const SharedModelOptions& options, std::span<const float> initial);
  // Joins the model there. Throws kInvalid where there is none. The memory outlives this.
  explicit SharedModel(std::span<std::byte> memory);

  const SharedModelOptions& options() const;
  std::uint64_t version() const;  // updates applied by all

  // The shared parameters; of ad-psgd the worker's own.
  std::span<float> parameters(std::uint32_t worker);
  // A copy and its version. With a worker's number, the wait for the lock counts as that worker's. Without one, ad-psgd
  // gives the mean of all workers that have joined.
  std::uint64_t read_into(std::span<float> out, std::uint32_t worker);
  std::uint64_t read_into(std::span<float> out);

  // Starts a worker, or its replacement: its own optimizer state is reset; with ad-psgd, its parameters become the mean
  // of the workers that have joined, or the initial ones. After load() the first join keeps the loaded values.
  void join(std::uint32_t worker);

  struct Applied {
    std::uint64_t version;   // after it
    std::int64_t staleness;  // updates by others since base_version; -1: refused by is_gradient()
  };
  // kInvalid where an ad-psgd worker has not joined.
  Applied apply(std::uint32_t worker, std::span<const float> gradient, std::uint64_t base_version);

  // Of ad-psgd: both get their mean. False, and nothing is done, where the neighbor has not joined.
  bool average(std::uint32_t worker, std::uint32_t neighbor);

  double lock_wait_seconds(std::uint32_t worker) const;

  // What a checkpoint needs. Sets of parameters: one, or one for each worker (ad-psgd); sets of moments and steps: one,
  // or one for each worker (own optimizer state).
  struct State {
    std::uint64_t version = 0;
    std::vector<std::uint64_t> steps;  // [S]
    std::vector<std::uint8_t> joined;  // [W], 0 or 1
    std::vector<float> parameters;     // [R, P]
    std::vector<float> moments;        // [S, M, P]
  };
  State state();
  void load(const State& state);  // throws kInvalid where sizes differ

  std::size_t parameter_sets() const;  // R
  std::size_t moment_sets() const;     // S

 private:
  struct Header;
  struct Worker;
  struct Layout;

  static Header& header_in(std::span<std::byte> memory);  // throws kInvalid
  Layout layout() const;
  Worker& worker(std::uint32_t index) const;  // throws kInvalid
  std::span<float> own_parameters(std::size_t set) const;
  std::span<float> moment(std::size_t set, std::size_t index) const;
  std::span<float> set_of(std::vector<float>& values, std::size_t index) const;
  std::span<const float> set_of(const std::vector<float>& values, std::size_t index) const;
  void check_size(std::size_t size, const char* name) const;

  std::byte* const memory_;
  Header& header_;
};

}  // namespace headrace
