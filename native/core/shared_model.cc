#include "core/shared_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/robust_mutex.h"

#if defined(__SANITIZE_THREAD__)
#define HEADRACE_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEADRACE_THREAD_SANITIZER
#endif
#endif
#if defined(HEADRACE_THREAD_SANITIZER)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace headrace {
namespace {

constexpr std::uint64_t kMagic = 0x32'4c'44'4d'52'44'48'00;  // "\0HDRMDL2"
constexpr std::size_t kLine = 64;                            // bytes of a cache line, which two workers never share

std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void require(bool holds, const std::string& name, const std::string& value, const std::string& required) {
  if (holds) return;
  throw Error(ErrorKind::kInvalid, "shared model: " + name + " is " + value + ", but it must be " + required);
}

// Holds a lock, and adds the nanoseconds of the wait for it to `waited`.
class SCOPED_CAPABILITY Held {
 public:
  explicit Held(RobustMutex& mutex, std::atomic<std::uint64_t>* waited = nullptr) ACQUIRE(mutex) : mutex_(mutex) {
    const std::uint64_t nanoseconds = mutex.lock();
    if (waited != nullptr) waited->fetch_add(nanoseconds, std::memory_order_relaxed);
  }
  ~Held() RELEASE() { mutex_.unlock(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  RobustMutex& mutex_;
};

// Holds a lock for one who supervises, unless a worker that was stopped has it: then the race is accepted.
class HeldUnlessStopped {
 public:
  explicit HeldUnlessStopped(RobustMutex& mutex) NO_THREAD_SAFETY_ANALYSIS  // of a lock that it may hold
      : mutex_(mutex.try_lock_for(SharedModel::kPatience) ? &mutex : nullptr) {}
  ~HeldUnlessStopped() NO_THREAD_SAFETY_ANALYSIS {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  HeldUnlessStopped(const HeldUnlessStopped&) = delete;
  HeldUnlessStopped& operator=(const HeldUnlessStopped&) = delete;

 private:
  RobustMutex* const mutex_;
};

// Hogwild's race is intended: tells the thread sanitizer so in its scope.
class Race {
 public:
#if defined(HEADRACE_THREAD_SANITIZER)
  Race() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~Race() {
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  Race() {}
  ~Race() {}
#endif
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;
};

void copy(std::span<const float> from, std::span<float> to) {
  std::memcpy(to.data(), from.data(), to.size() * sizeof(float));
}

// The proximal operator of threshold × the sum of all magnitudes: each value moves by `threshold` toward 0, and stops
// there.
void shrink(std::span<float> values, float threshold) {
  for (float& value : values) {
    const float magnitude = std::max(std::fabs(value) - threshold, 0.0f);
    value = std::copysign(magnitude, value);
  }
}

}  // namespace

Sharing sharing_of(std::string_view name) {
  if (name == "lock") return Sharing::kLock;
  if (name == "hogwild") return Sharing::kHogwild;
  if (name == "ad-psgd") return Sharing::kAdPsgd;
  throw Error(ErrorKind::kInvalid, "shared model: mode is \"" + std::string(name.substr(0, 200)) +
                                       "\", but it must be lock, hogwild or ad-psgd");
}

void SharedModelOptions::check() const {
  optimizer.check();
  require(workers >= 1 && workers <= kMaxWorkers, "workers", std::to_string(workers),
          "from 1 to " + std::to_string(kMaxWorkers));
  require(count >= 1 && count <= kMaxCount, "the number of parameters", std::to_string(count),
          "from 1 to " + std::to_string(kMaxCount));
  require(std::isfinite(l1_penalty) && l1_penalty >= 0.0, "l1_penalty", std::to_string(l1_penalty),
          "a finite number of at least 0");
  require(l1_penalty == 0.0 || sharing == Sharing::kAdPsgd, "l1_penalty", std::to_string(l1_penalty),
          "0 where the mode is not ad-psgd");
}

struct alignas(kLine) SharedModel::Header {
  std::uint64_t magic;
  SharedModelOptions options;
  alignas(kLine) std::atomic<std::uint64_t> version;
  std::atomic<std::uint64_t> steps;  // of the shared optimizer state
  RobustMutex mutex;                 // lock: guards all parameters and optimizer state
};

enum class Presence : std::uint32_t { kAbsent, kLoaded, kJoined };

struct alignas(kLine) SharedModel::Worker {
  std::atomic<std::uint64_t> waited_nanoseconds;
  std::atomic<std::uint64_t> steps;  // of the worker's own optimizer state
  std::atomic<Presence> presence;    // changed with the lock held
  RobustMutex mutex;                 // ad-psgd: guards the worker's parameters and optimizer state
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<Presence>::is_always_lock_free);

// Byte offsets of what the memory holds: header, workers, sets of parameters, sets of moments. Of ad-psgd, the set of
// parameters after the workers' is the initial one.
struct SharedModel::Layout {
  std::uint64_t vector, parameters, moments, end;

  static Layout of(const SharedModelOptions& options) {
    Layout layout = {};
    const std::uint64_t sets = options.sharing == Sharing::kAdPsgd ? options.workers + 1 : 1;
    const std::uint64_t moment_sets = options.own_optimizer_state ? options.workers : 1;
    layout.vector = round_up(options.count * sizeof(float), kLine);
    layout.parameters = sizeof(Header) + options.workers * sizeof(Worker);
    layout.moments = layout.parameters + sets * layout.vector;
    layout.end = layout.moments + moment_sets * options.optimizer.moments() * layout.vector;
    return layout;
  }
};

std::uint64_t SharedModel::bytes(const SharedModelOptions& options) {
  SharedModelOptions full = options;
  full.own_optimizer_state = options.own_optimizer_state || options.sharing == Sharing::kAdPsgd;
  return Layout::of(full).end;
}

void SharedModel::format(std::span<std::byte> memory, const SharedModelOptions& options,
                         std::span<const float> initial) {
  options.check();
  require(memory.size() >= bytes(options), "memory", std::to_string(memory.size()) + " bytes",
          "at least " + std::to_string(bytes(options)));
  require(initial.size() == options.count, "the number of initial values", std::to_string(initial.size()),
          "the number of parameters, " + std::to_string(options.count));
  auto* header = new (memory.data()) Header{};
  header->options = options;
  header->options.own_optimizer_state = options.own_optimizer_state || options.sharing == Sharing::kAdPsgd;
  header->mutex.initialize();
  for (std::uint32_t i = 0; i < options.workers; ++i) {
    (new (memory.data() + sizeof(Header) + i * sizeof(Worker)) Worker{})->mutex.initialize();
  }
  header->magic = kMagic;
  SharedModel model(memory);
  copy(initial, model.own_parameters(options.sharing == Sharing::kAdPsgd ? options.workers : 0));
}

SharedModel::Header& SharedModel::header_in(std::span<std::byte> memory) {
  if (memory.size() >= sizeof(Header)) {
    auto& header = *reinterpret_cast<Header*>(memory.data());
    if (header.magic == kMagic && header.options.workers <= SharedModelOptions::kMaxWorkers &&
        header.options.count <= SharedModelOptions::kMaxCount && memory.size() >= Layout::of(header.options).end) {
      return header;
    }
  }
  throw Error(ErrorKind::kInvalid, "shared model: there is none in this memory; one of this version required");
}

SharedModel::SharedModel(std::span<std::byte> memory) : memory_(memory.data()), header_(header_in(memory)) {}

const SharedModelOptions& SharedModel::options() const { return header_.options; }

std::uint64_t SharedModel::version() const { return header_.version.load(std::memory_order_acquire); }

SharedModel::Layout SharedModel::layout() const { return Layout::of(header_.options); }

std::size_t SharedModel::parameter_sets() const {
  return options().sharing == Sharing::kAdPsgd ? options().workers : 1;
}

std::size_t SharedModel::moment_sets() const { return options().own_optimizer_state ? options().workers : 1; }

SharedModel::Worker& SharedModel::worker(std::uint32_t index) const {
  require(index < options().workers, "worker", std::to_string(index),
          "below the number of workers, " + std::to_string(options().workers));
  return *reinterpret_cast<Worker*>(memory_ + sizeof(Header) + index * sizeof(Worker));
}

std::span<float> SharedModel::own_parameters(std::size_t set) const {
  const Layout at = layout();
  return {reinterpret_cast<float*>(memory_ + at.parameters + set * at.vector), options().count};
}

std::span<float> SharedModel::moment(std::size_t set, std::size_t index) const {
  const Layout at = layout();
  const std::uint64_t vectors = set * options().optimizer.moments() + index;
  return {reinterpret_cast<float*>(memory_ + at.moments + vectors * at.vector), options().count};
}

std::span<float> SharedModel::set_of(std::vector<float>& values, std::size_t index) const {
  return std::span(values).subspan(index * options().count, options().count);
}

std::span<const float> SharedModel::set_of(const std::vector<float>& values, std::size_t index) const {
  return std::span(values).subspan(index * options().count, options().count);
}

void SharedModel::check_size(std::size_t size, const char* name) const {
  require(size == options().count, std::string("the length of ") + name, std::to_string(size),
          "the number of parameters, " + std::to_string(options().count));
}

std::span<float> SharedModel::parameters(std::uint32_t index) {
  worker(index);
  return own_parameters(parameter_sets() == 1 ? 0 : index);
}

std::uint64_t SharedModel::read_into(std::span<float> out, std::uint32_t index) {
  check_size(out.size(), "out");
  Worker& reader = worker(index);
  if (options().sharing == Sharing::kHogwild) return read_into(out);
  const bool lock = options().sharing == Sharing::kLock;
  const Held held(lock ? header_.mutex : reader.mutex, &reader.waited_nanoseconds);
  copy(own_parameters(lock ? 0 : index), out);
  return version();
}

std::uint64_t SharedModel::read_into(std::span<float> out) {
  check_size(out.size(), "out");
  const std::uint64_t read = version();  // before the copy: no update that it counts is missing
  if (options().sharing == Sharing::kLock) {
    const HeldUnlessStopped held(header_.mutex);
    copy(own_parameters(0), out);
    return version();
  }
  if (options().sharing == Sharing::kHogwild) {
    const Race race;
    copy(own_parameters(0), out);
    return read;
  }
  std::uint32_t joined = 0;
  for (std::uint32_t i = 0; i < options().workers; ++i) {
    Worker& other = worker(i);
    const HeldUnlessStopped held(other.mutex);
    if (other.presence.load(std::memory_order_relaxed) == Presence::kAbsent) continue;
    const auto values = own_parameters(i);
    if (joined++ == 0) {
      copy(values, out);
    } else {
      for (std::size_t k = 0; k < out.size(); ++k) out[k] += values[k];
    }
  }
  if (joined == 0) copy(own_parameters(options().workers), out);
  if (joined > 1) {
    for (auto& value : out) value /= static_cast<float>(joined);
  }
  return read;
}

void SharedModel::join(std::uint32_t index) {
  Worker& joining = worker(index);
  const bool averages = options().sharing == Sharing::kAdPsgd;
  std::vector<float> mean(averages ? options().count : 0);
  if (averages) read_into(mean);
  const bool lock = options().sharing == Sharing::kLock;
  const Held held(lock ? header_.mutex : joining.mutex, &joining.waited_nanoseconds);
  if (joining.presence.load(std::memory_order_relaxed) != Presence::kLoaded) {
    if (averages) copy(mean, own_parameters(index));
    if (options().own_optimizer_state) {
      std::memset(moment(index, 0).data(), 0, options().optimizer.moments() * layout().vector);
      joining.steps.store(0, std::memory_order_relaxed);
    }
  }
  joining.presence.store(Presence::kJoined, std::memory_order_release);  // last, should its process end before
}

SharedModel::Applied SharedModel::apply(std::uint32_t index, std::span<const float> gradient,
                                        std::uint64_t base_version) {
  check_size(gradient.size(), "gradient");
  Worker& applying = worker(index);
  if (!is_gradient(gradient)) return {version(), -1};
  const bool averages = options().sharing == Sharing::kAdPsgd, own = options().own_optimizer_state;
  const auto update = [&] {
    if (averages) {
      const bool joined = applying.presence.load(std::memory_order_relaxed) == Presence::kJoined;
      require(joined, "worker " + std::to_string(index), "absent", "one that has joined");
    }
    const std::uint64_t step = (own ? applying.steps : header_.steps).fetch_add(1, std::memory_order_relaxed) + 1;
    apply_gradient(options().optimizer, step, own_parameters(averages ? index : 0), moment(own ? index : 0, 0).data(),
                   layout().vector / sizeof(float), gradient);
    if (options().l1_penalty > 0.0) {
      shrink(own_parameters(index), static_cast<float>(options().optimizer.learning_rate * options().l1_penalty));
    }
    return header_.version.fetch_add(1, std::memory_order_release);
  };
  std::uint64_t before = 0;
  if (options().sharing == Sharing::kHogwild) {
    const Race race;
    before = update();
  } else {
    const Held held(averages ? applying.mutex : header_.mutex, &applying.waited_nanoseconds);
    before = update();
  }
  return {before + 1, before > base_version ? static_cast<std::int64_t>(before - base_version) : 0};
}

bool SharedModel::average(std::uint32_t index, std::uint32_t neighbor) {
  require(options().sharing == Sharing::kAdPsgd, "mode", "another", "ad-psgd, where workers average");
  require(index != neighbor, "neighbor", std::to_string(neighbor), "another worker");
  Worker &own = worker(index), &other = worker(neighbor);
  const Held first(index < neighbor ? own.mutex : other.mutex, &own.waited_nanoseconds);
  const Held second(index < neighbor ? other.mutex : own.mutex, &own.waited_nanoseconds);
  for (const Worker* each : {&own, &other}) {
    if (each->presence.load(std::memory_order_relaxed) == Presence::kAbsent) return false;
  }
  float* __restrict a = own_parameters(index).data();
  float* __restrict b = own_parameters(neighbor).data();
  for (std::size_t i = 0; i < options().count; ++i) a[i] = b[i] = 0.5f * (a[i] + b[i]);
  return true;
}

double SharedModel::lock_wait_seconds(std::uint32_t index) const {
  return static_cast<double>(worker(index).waited_nanoseconds.load(std::memory_order_relaxed)) * 1e-9;
}

SharedModel::State SharedModel::state() {
  const bool lock = options().sharing == Sharing::kLock;
  std::optional<HeldUnlessStopped> all;
  if (lock) all.emplace(header_.mutex);
  State state;
  state.version = version();
  state.parameters.resize(parameter_sets() * options().count);
  state.moments.resize(moment_sets() * options().optimizer.moments() * options().count);
  const auto take = [&](std::uint32_t set, const std::atomic<std::uint64_t>& steps) {
    std::optional<Race> race;
    if (options().sharing == Sharing::kHogwild) race.emplace();
    if (set < parameter_sets()) copy(own_parameters(set), set_of(state.parameters, set));
    if (set >= moment_sets()) return;
    for (std::size_t m = 0; m < options().optimizer.moments(); ++m) {
      copy(moment(set, m), set_of(state.moments, set * options().optimizer.moments() + m));
    }
    state.steps.push_back(steps.load(std::memory_order_relaxed));
  };
  for (std::uint32_t i = 0; i < options().workers; ++i) {
    Worker& each = worker(i);
    std::optional<HeldUnlessStopped> one;
    if (!lock) one.emplace(each.mutex);
    take(i, options().own_optimizer_state ? each.steps : header_.steps);
    state.joined.push_back(each.presence.load(std::memory_order_relaxed) != Presence::kAbsent);
  }
  return state;
}

void SharedModel::load(const State& state) {
  const std::size_t moments = options().optimizer.moments();
  const auto check = [](std::size_t size, std::size_t required, const char* name) {
    require(size == required, std::string("the length of ") + name, std::to_string(size), std::to_string(required));
  };
  check(state.parameters.size(), parameter_sets() * options().count, "parameters");
  check(state.moments.size(), moment_sets() * moments * options().count, "moments");
  check(state.steps.size(), moment_sets(), "steps");
  check(state.joined.size(), options().workers, "joined");
  for (std::size_t set = 0; set < parameter_sets(); ++set) copy(set_of(state.parameters, set), own_parameters(set));
  for (std::size_t set = 0; set < moment_sets(); ++set) {
    for (std::size_t m = 0; m < moments; ++m) copy(set_of(state.moments, set * moments + m), moment(set, m));
    (options().own_optimizer_state ? worker(static_cast<std::uint32_t>(set)).steps : header_.steps)
        .store(state.steps[set]);
  }
  for (std::uint32_t i = 0; i < options().workers; ++i) {
    worker(i).presence.store(state.joined[i] != 0 ? Presence::kLoaded : Presence::kAbsent);
  }
  header_.version.store(state.version);
}

}  // namespace headrace
