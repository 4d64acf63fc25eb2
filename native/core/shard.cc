#include "core/shard.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kPiece = 4096;  // floats that are worked on at a time where they must be copied first
constexpr const char* kPurpose = "a shard of parameters";

ShardOptions checked(ShardOptions options) {
  options.check();
  return options;
}

bool is_aligned(std::span<const std::byte> bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
}

// Bytes at an aligned address, as floats.
std::span<const float> as_floats(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Calls `visit(index of the first, floats)` on copies, piece by piece, until it returns false; then returns false.
template <typename Visit>
bool in_pieces(std::span<const std::byte> bytes, Visit visit) {
  alignas(64) std::array<float, kPiece> piece;
  const std::size_t count = bytes.size() / sizeof(float);
  for (std::size_t at = 0; at < count; at += kPiece) {
    const auto part = std::span(piece).first(std::min(kPiece, count - at));
    std::memcpy(part.data(), bytes.data() + at * sizeof(float), part.size_bytes());
    if (!visit(at, part)) return false;
  }
  return true;
}

using Check = bool(std::span<const float>) noexcept;

bool all_of(std::span<const std::byte> bytes, Check check) {
  if (is_aligned(bytes)) return check(as_floats(bytes));
  return in_pieces(bytes, [check](std::size_t, std::span<float> piece) { return check(piece); });
}

bool is_finite(std::span<const std::byte> bytes) { return all_of(bytes, all_finite); }

void check_bytes(const char* what, std::size_t given, std::size_t required) {
  if (given == required) return;
  throw Error(ErrorKind::kRefused, std::string(what) + " of " + std::to_string(given) +
                                       " bytes: " + std::to_string(required) + " required; nothing is changed");
}

}  // namespace

Shard::Shard(ShardOptions options, std::span<const std::byte> initial, MemoryBudget& budget, std::size_t lane)
    : options_(checked(std::move(options))),
      lane_(lane),
      budget_(budget),
      share_((check_bytes("initial parameters", initial.size(), bytes()), budget.take(state_bytes(), kPurpose))),
      parameters_(options_.size),
      moments_(options_.size * options_.optimizer.moments()) {
  if (!is_finite(initial)) {
    throw Error(ErrorKind::kInvalid, "initial parameters: finite numbers required; no shard is made of them");
  }
  std::memcpy(parameters_.data(), initial.data(), initial.size());
}

PushResult Shard::push(const PushedGradient& pushed, std::span<const std::byte> gradient) {
  check_bytes("gradient", gradient.size(), bytes());
  const LockGuard lock(mutex_);
  return process_once(pushed, gradient);
}

PushResult Shard::refuse(const PushedGradient& pushed) {
  const LockGuard lock(mutex_);
  return process_once(pushed, std::nullopt);
}

// Processes each of a worker's gradients once; a repeated push gets the first result.
PushResult Shard::process_once(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient) {
  if (pushed.worker == 0) return process(pushed, gradient);
  Worker& from = worker(pushed.worker);
  if (from.last && pushed.sequence <= from.sequence) return *from.last;
  from.last = process(pushed, gradient);
  from.sequence = pushed.sequence;
  return *from.last;
}

PushResult Shard::process(const PushedGradient& pushed, std::optional<std::span<const std::byte>> gradient) {
  const auto begun = std::chrono::steady_clock::now();
  PushResult result{version_, 0, Verdict::kAccepted};
  const bool known = pushed.base_version <= version_ && pushed.own_updates <= version_ - pushed.base_version;
  if (known) result.staleness = version_ - pushed.base_version - pushed.own_updates;
  const bool compensates = options_.policy == StalenessPolicy::kCompensate;
  const float* const fetched = compensates ? backup_of(pushed) : nullptr;
  const bool too_late = options_.policy == StalenessPolicy::kDrop && result.staleness > options_.max_staleness;
  if (!gradient || !is_applicable(*gradient, fetched)) {
    result.verdict = Verdict::kRefused;
  } else if (!known || too_late || (compensates && fetched == nullptr)) {
    result.verdict = Verdict::kDropped;
  } else {
    apply(*gradient, result.staleness, fetched);
    ++steps_;
    note_version(version_ + 1);
    result.version = version_;
  }
  count(result, std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  return result;
}

// The parameters as the worker fetched them; null if they are not kept.
const float* Shard::backup_of(const PushedGradient& pushed) const {
  const auto found = workers_.find(pushed.worker);
  const Backup* backup = found != workers_.end() ? found->second.backup.get() : nullptr;
  return backup != nullptr && backup->version == pushed.base_version ? backup->parameters.data() : nullptr;
}

// As in_pieces(), of the gradient with the estimate of how it has changed since `fetched`.
template <typename Visit>
bool Shard::in_compensated_pieces(std::span<const std::byte> gradient, const float* fetched, Visit visit) const {
  const auto lambda = static_cast<float>(options_.compensation);
  const float* const parameters = parameters_.data();
  return in_pieces(gradient, [&](std::size_t at, std::span<float> piece) {
    const float* const now = parameters + at;
    const float* const then = fetched + at;
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] += lambda * piece[i] * piece[i] * (now[i] - then[i]);
    return visit(at, piece);
  });
}

// Whether it can be applied, with its compensation if it is compensated.
bool Shard::is_applicable(std::span<const std::byte> gradient, const float* fetched) const {
  if (fetched == nullptr) return all_of(gradient, is_gradient);
  return in_compensated_pieces(gradient, fetched, [](std::size_t, std::span<float> part) { return is_gradient(part); });
}

void Shard::apply(std::span<const std::byte> gradient, std::uint64_t staleness, const float* fetched) {
  auto optimizer = options_.optimizer;
  if (options_.policy == StalenessPolicy::kScale && staleness > 1) {
    optimizer.learning_rate /= static_cast<double>(staleness);
  }
  const std::uint64_t step = steps_ + 1;
  float* const parameters = parameters_.data();
  float* const moments = moments_.data();
  const auto apply_at = [&](std::size_t at, std::span<const float> part) {
    apply_gradient(optimizer, step, {parameters + at, part.size()}, moments + at, options_.size, part);
    return true;
  };
  if (fetched != nullptr) {
    in_compensated_pieces(gradient, fetched, apply_at);
  } else if (is_aligned(gradient)) {
    apply_at(0, as_floats(gradient));
  } else {
    in_pieces(gradient, apply_at);
  }
}

void Shard::count(const PushResult& result, double seconds) {
  const LockGuard lock(stats_mutex_);
  stats_.version = result.version;
  std::uint64_t& counter = result.verdict == Verdict::kAccepted  ? stats_.accepted
                           : result.verdict == Verdict::kDropped ? stats_.dropped
                                                                 : stats_.refused;
  ++counter;
  stats_.apply_seconds += seconds;
  ++stats_.staleness[std::min<std::uint64_t>(result.staleness, ShardStats::kStalenessBins - 1)];
}

std::optional<std::uint64_t> Shard::fetch(std::uint64_t worker_name, std::int64_t newer_than, std::span<std::byte> to) {
  check_bytes("room for parameters", to.size(), bytes());
  const LockGuard lock(mutex_);
  const bool kept = worker_name != 0 && options_.policy == StalenessPolicy::kCompensate;
  Worker* const by = kept ? &worker(worker_name) : nullptr;
  const bool lost = by != nullptr && !(by->backup && by->backup->version == version_);  // its backup was dropped
  if (!lost && newer_than >= 0 && static_cast<std::uint64_t>(newer_than) == version_) return std::nullopt;
  if (by != nullptr) back_up(*by);
  std::memcpy(to.data(), parameters_.data(), to.size());
  return version_;
}

void Shard::back_up(Worker& of) {
  if (!of.backup) {
    const auto held = std::ranges::count_if(workers_, [](const auto& each) { return each.second.backup != nullptr; });
    if (static_cast<std::size_t>(held) >= kMaxBackups) forget_backup(of);
    auto share = budget_.try_take(bytes());
    while (!share && forget_backup(of)) share = budget_.try_take(bytes());
    if (!share) share = budget_.take(bytes(), "parameters as a worker fetched them");
    of.backup = std::make_unique<Backup>(Backup{0, HugeArray<float>(options_.size), std::move(*share)});
  }
  std::memcpy(of.backup->parameters.data(), parameters_.data(), bytes());
  of.backup->version = version_;
}

// The backup of the worker that has been silent longest, except one. False if there is none.
bool Shard::forget_backup(const Worker& but) {
  Worker* oldest = nullptr;
  for (auto& [name, each] : workers_) {
    if (each.backup && &each != &but && (oldest == nullptr || each.heard < oldest->heard)) oldest = &each;
  }
  if (oldest == nullptr) return false;
  oldest->backup.reset();
  return true;
}

Shard::Worker& Shard::worker(std::uint64_t name) {
  auto found = workers_.find(name);
  if (found == workers_.end()) {
    auto share = budget_.take(kBytesEachWorker, "a worker that pushes gradients");
    if (workers_.size() >= kMaxWorkers) {
      workers_.erase(std::ranges::min_element(workers_, {}, [](const auto& each) { return each.second.heard; }));
    }
    found = workers_.try_emplace(name).first;
    found->second.share = std::move(share);
  }
  found->second.heard = ++clock_;
  return found->second;
}

std::uint64_t Shard::state(std::span<std::byte> to) const {
  check_bytes("room for a shard's state", to.size(), state_bytes());
  const LockGuard lock(mutex_);
  std::memcpy(to.data(), parameters_.data(), bytes());
  if (moments_.size() > 0) std::memcpy(to.data() + bytes(), moments_.data(), to.size() - bytes());
  return steps_;
}

void Shard::load(std::uint64_t steps, std::span<const std::byte> state) {
  check_bytes("a shard's state", state.size(), state_bytes());
  if (!is_finite(state)) {
    throw Error(ErrorKind::kRefused, "a shard's state: finite numbers required; nothing is changed");
  }
  const LockGuard lock(mutex_);
  replace(state, steps);
  if (file_ && steps > version_) loaded_at_ = changes_ + 1;
  note_version(steps);
  for (auto& [name, each] : workers_) each.backup.reset();
  const LockGuard counting(stats_mutex_);
  stats_.version = version_;
}

void Shard::replace(std::span<const std::byte> state, std::uint64_t steps) {
  std::memcpy(parameters_.data(), state.data(), bytes());
  if (moments_.size() > 0) std::memcpy(moments_.data(), state.data() + bytes(), state.size() - bytes());
  steps_ = steps;
}

void Shard::note_version(std::uint64_t version) {
  version_ = version;
  ++changes_;
  if (file_ && loaded_at_ == 0) file_->set_latest(version);
}

void Shard::restore(const ShardImage& image, std::optional<std::uint64_t> latest) {
  const auto valid = [](const ShardImage::Worker& each) {
    return each.name != 0 && each.verdict <= static_cast<std::uint64_t>(Verdict::kRefused);
  };
  if (image.state.size() != state_bytes() || !is_finite(image.state) || !std::ranges::all_of(image.workers, valid)) {
    throw Error(ErrorKind::kCorrupt, "a shard's image: finite numbers of its size, and valid workers required");
  }
  const LockGuard lock(mutex_);
  replace(image.state, image.steps);
  const bool complete = latest.value_or(0) <= image.version;
  lost_ = image.lost + (complete ? 0 : *latest - image.version);
  note_version(complete ? image.version : *latest + 1);
  for (const auto& each : image.workers) {
    Worker& restored = worker(each.name);
    restored.heard = each.heard;
    restored.sequence = each.sequence;
    restored.last = PushResult{each.version, each.staleness, static_cast<Verdict>(each.verdict)};
    clock_ = std::max(clock_, each.heard);
  }
  const LockGuard counting(stats_mutex_);
  stats_.version = version_;
  stats_.saved_version = image.version;
  stats_.lost = lost_;
}

ShardImage Shard::copy(std::span<std::byte> memory) const {
  ShardImage image{version_, steps_, lost_, {}, memory};
  std::memcpy(memory.data(), parameters_.data(), bytes());
  if (moments_.size() > 0) std::memcpy(memory.data() + bytes(), moments_.data(), memory.size() - bytes());
  for (const auto& [name, each] : workers_) {
    if (!each.last) continue;
    const PushResult& last = *each.last;
    image.workers.push_back(
        {name, each.heard, each.sequence, last.version, last.staleness, static_cast<std::uint64_t>(last.verdict)});
  }
  return image;
}

ShardImage Shard::image(std::span<std::byte> memory) const {
  check_bytes("room for a shard's image", memory.size(), state_bytes());
  const LockGuard lock(mutex_);
  return copy(memory);
}

void Shard::keep_in(std::shared_ptr<ShardFile> file) {
  const LockGuard lock(mutex_);
  file_ = std::move(file);
}

std::shared_ptr<ShardFile> Shard::file() const {
  const LockGuard lock(mutex_);
  return file_;
}

void Shard::save(std::span<std::byte> memory) {
  check_bytes("room for a shard's image", memory.size(), state_bytes());
  ShardImage image;
  std::shared_ptr<ShardFile> file;
  std::uint64_t changes = 0;
  {
    const LockGuard lock(mutex_);
    if (!file_ || changes_ == saved_changes_) return;
    image = copy(memory);
    file = file_;
    changes = changes_;
  }
  file->save(image);
  {
    const LockGuard lock(mutex_);
    saved_changes_ = changes;
    if (loaded_at_ != 0 && changes >= loaded_at_) {
      loaded_at_ = 0;
      if (file_) file_->set_latest(version_);
    }
  }
  const LockGuard counting(stats_mutex_);
  stats_.saved_version = image.version;
}

ShardStats Shard::stats() const {
  const LockGuard lock(stats_mutex_);
  return stats_;
}

}  // namespace headrace
