#include "core/table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/table_impl.h"

namespace headrace {
namespace {

constexpr float kSmallestPriority = 1e-6f;  // so that priority 0 stays samplable

}  // namespace

Table::Impl::Impl(TableOptions checked_options)
    : options(std::move(checked_options)),
      writers(writers_limit(options.capacity)),
      transitions(options.signature, options.capacity, options.capacity_bytes, options.path),
      priorities(options.capacity),
      limiter(options.limiter),
      random(options.seed),
      recovered(transitions.size()) {
  if (prioritized()) tree.emplace(options.capacity);
  for (std::uint64_t key = transitions.oldest_key(); key < transitions.next_key();) {
    ChunkHeader& header = transitions.chunk_at(transitions.slot_of(key));
    float* chunk_priorities = transitions.priorities_of(header);
    const float largest = key == transitions.oldest_key() ? 1.0f : priorities.max();
    std::replace(chunk_priorities, chunk_priorities + header.steps, kUnknownPriority, largest);
    weigh(chunk_priorities, header.steps);
    index(key);
    // Chunks that were renumbered need not lie in the order in which their writer sent them.
    if (!writers.repeated(header.writer, header.sequence)) remember(header, key);
    key += header.steps;
  }
  limiter.restore({.total = recovered});
}

bool Table::Impl::may_insert() const {
  if (closed) throw Error(ErrorKind::kClosed, "the table is closed");
  return !paused && limiter.can_insert();
}

bool Table::Impl::may_sample(std::uint64_t batch) const {
  if (closed) throw Error(ErrorKind::kClosed, "the table is closed");
  return limiter.can_sample(batch, transitions.size());
}

bool Table::Impl::end_holds() {
  if (closed) return false;
  bool wake = false;
  if (insert_held.holding() && may_insert()) {
    insert_held.allow();
    insert_allowed.notify_all();
    wake = true;
  }
  if (sample_held.holding() && may_sample(held_batch)) {
    sample_held.allow();
    sample_allowed.notify_all();
    wake = true;
  }
  return wake;
}

void Table::Impl::check_fits(const ChunkHeader& header) const {
  if (header.steps > options.capacity) {
    throw Error(ErrorKind::kChunkRefused, "chunk.steps: " + std::to_string(header.steps) +
                                              ", but the table's capacity is " + std::to_string(options.capacity) +
                                              " transitions; the chunk is not stored");
  }
  const std::size_t capacity_bytes = stored().arena().capacity_bytes();
  if (header.bytes > capacity_bytes) {
    throw Error(ErrorKind::kChunkRefused, "chunk.bytes: " + std::to_string(header.bytes) +
                                              ", but the table's capacity_bytes is " + std::to_string(capacity_bytes) +
                                              "; the chunk is not stored");
  }
}

double Table::Impl::leaf_weight(float priority) const {
  priority = std::max(priority, kSmallestPriority);
  // In single precision a power takes a third of the time, and a priority has no more; only a large one overflows.
  const float weight = std::pow(priority, static_cast<float>(options.priority_exponent));
  return std::isfinite(weight) ? weight : std::pow(static_cast<double>(priority), options.priority_exponent);
}

void Table::Impl::weigh(const float* priorities, std::uint32_t steps) {
  if (!prioritized()) return;
  weights.resize(steps);
  for (std::uint32_t i = 0; i < steps; ++i) {
    weights[i] = i > 0 && priorities[i] == priorities[i - 1] ? weights[i - 1] : leaf_weight(priorities[i]);
  }
}

void Table::Impl::index(std::uint64_t first_key) {
  const ChunkHeader& header = transitions.chunk_at(transitions.slot_of(first_key));
  const std::span<const float> stored_priorities(transitions.priorities_of(header), header.steps);
  for (const auto& run : slots_of(first_key, header.steps)) {
    priorities.set_range(run.slot, stored_priorities.subspan(run.offset, run.count));
    if (tree) tree->set_range(run.slot, std::span(weights).subspan(run.offset, run.count));
  }
}

// The second run is empty unless the slots wrap.
std::array<SlotRun, 2> Table::Impl::slots_of(std::uint64_t first_key, std::uint64_t steps) const {
  const std::uint64_t slot = first_key % options.capacity;
  const std::size_t before_wrap = std::min(steps, options.capacity - slot);
  return {{{slot, 0, before_wrap}, {0, before_wrap, steps - before_wrap}}};
}

// What a new transition gets (Schaul et al. 2016, section 3.3: the maximal priority); 1 in an empty table.
float Table::Impl::max_priority() const { return transitions.size() > 0 ? priorities.max() : 1.0f; }

void Table::Impl::evict_oldest() {
  const std::uint64_t key = transitions.oldest_key();
  const std::uint32_t steps = transitions.forget_oldest();
  counters.evicted += steps;
  for (const auto& run : slots_of(key, steps)) {
    priorities.clear_range(run.slot, run.count);
    if (tree) tree->clear_range(run.slot, run.count);
  }
}

std::optional<std::size_t> Table::Impl::make_room(const ChunkHeader& header) {
  while (transitions.size() + header.steps > options.capacity) evict_oldest();
  for (;;) {
    if (pinned()) {
      insert_parked = true;
      return std::nullopt;
    }
    transitions.release_forgotten();
    if (const auto offset = transitions.reserve(header.bytes)) return offset;
    evict_oldest();
  }
}

bool Table::Impl::unpinned_one() {
  if (pinned()) return false;
  unpinned.notify_all();
  return std::exchange(insert_parked, false);
}

void Table::Impl::remember(const ChunkHeader& header, std::uint64_t key) {
  if (header.writer != 0) writers.remember({header.writer, header.sequence, key});
}

std::optional<std::uint64_t> Table::Impl::store(std::span<const std::byte> chunk, const ChunkHeader& header) {
  const auto room = make_room(header);
  if (!room) return std::nullopt;
  const std::size_t offset = *room;
  const float unknown_priority = max_priority();
  {
    // The copy needs insert_mutex alone: no other thread reads or reserves these bytes.
    const UnlockGuard unlocked(mutex);
    const ChunkHeader& written = reserved().write(offset, chunk, unknown_priority);
    weigh(reserved().priorities_of(written), written.steps);
  }
  const std::uint64_t key = transitions.publish(offset);
  index(key);
  return key;
}

Table::Impl::InsertTurn::~InsertTurn() {
  table_.insert_mutex.unlock();
  bool wake = false;
  {
    const LockGuard lock(table_.mutex);
    wake = std::exchange(table_.turn_awaited, false);
  }
  if (wake) table_.wakers.wake_all();
}

bool Table::Impl::try_take_turn() {
  if (insert_mutex.try_lock()) return true;
  {
    const LockGuard lock(mutex);
    turn_awaited = true;
  }
  return insert_mutex.try_lock();  // if the other still has it, its end comes after the note
}

Table::Impl::Attempt Table::Impl::attempt(std::span<const std::byte> chunk, const ChunkHeader& header) {
  const Writers::Last* repeated = writers.repeated(header.writer, header.sequence);
  Attempt made;
  {
    const LockGuard lock(mutex);
    const bool allowed = may_insert();
    if (repeated != nullptr) return {.key = repeated->key};
    if (!allowed) {
      insert_held.hold();
      return {};
    }
    made.key = store(chunk, header);
    if (!made.key) return {.pinned = true};
    limiter.inserted(header.steps);
    counters.inserts += header.steps;
    made.wake = end_holds();
  }
  remember(header, *made.key);
  return made;
}

std::optional<std::uint64_t> Table::Impl::try_insert(std::span<const std::byte> chunk) {
  const ChunkHeader header = check_chunk(options.signature, chunk);
  check_fits(header);
  if (!try_take_turn()) return std::nullopt;
  Attempt made;
  {
    const InsertTurn turn(*this);
    made = attempt(chunk, header);
  }
  if (made.wake) wakers.wake_all();
  return made.key;
}

// Waits without the turn, so that no other insert waits for this one.
std::optional<std::uint64_t> Table::Impl::insert(std::span<const std::byte> chunk, Deadline deadline) {
  const ChunkHeader header = check_chunk(options.signature, chunk);
  check_fits(header);
  for (;;) {
    Attempt made;
    {
      insert_mutex.lock();
      const InsertTurn turn(*this);
      made = attempt(chunk, header);
    }
    if (made.wake) wakers.wake_all();
    if (made.key) return made.key;
    const LockGuard lock(mutex);
    while (made.pinned && pinned() && !closed) {
      if (!unpinned.wait_until(mutex, deadline) && pinned()) return std::nullopt;
    }
    while (!made.pinned && !may_insert()) {
      insert_held.hold();
      if (!insert_allowed.wait_until(mutex, deadline) && !may_insert()) return std::nullopt;
    }
  }
}

TableStats Table::Impl::stats() const {
  const LockGuard lock(mutex);
  const RateLimiter::State& flow = limiter.state();
  return {
      .size = transitions.size(),
      .capacity = options.capacity,
      .inserts = counters.inserts,
      .samples = counters.samples,
      .updates = counters.updates,
      .dropped_updates = counters.dropped_updates,
      .evicted = counters.evicted,
      .chunks = transitions.chunks(),
      .used_bytes = transitions.arena().used_bytes(),
      .capacity_bytes = transitions.arena().capacity_bytes(),
      .samples_per_insert =
          flow.inserts > 0 ? static_cast<double>(flow.samples) / static_cast<double>(flow.inserts) : 0.0,
      .insert_blocked_seconds = insert_held.seconds(),
      .sample_blocked_seconds = sample_held.seconds(),
      .max_priority = max_priority(),
      .total_weight = tree ? tree->total() : static_cast<double>(transitions.size()),
      .recovered = recovered,
      .lost = transitions.arena().lost(),
      .paused = paused,
      .closed = closed,
  };
}

Table::Table(TableOptions options) : impl_(std::make_unique<Impl>(checked(std::move(options)))) {}
Table::~Table() = default;

const TableOptions& Table::options() const { return impl_->options; }

std::uint64_t Table::size() const {
  const LockGuard lock(impl_->mutex);
  return impl_->transitions.size();
}

std::optional<std::uint64_t> Table::try_insert(std::span<const std::byte> chunk) { return impl_->try_insert(chunk); }

std::optional<std::uint64_t> Table::insert(std::span<const std::byte> chunk, Deadline deadline) {
  return impl_->insert(chunk, deadline);
}

bool Table::try_sample(const BatchView& batch, double importance_exponent) {
  const auto draw = impl_->draw(batch, importance_exponent, std::nullopt);
  if (draw) draw->gather_all();
  return draw != nullptr;
}

bool Table::sample(const BatchView& batch, double importance_exponent, Deadline deadline) {
  const auto draw = impl_->draw(batch, importance_exponent, deadline);
  if (draw) draw->gather_all();
  return draw != nullptr;
}

std::unique_ptr<Table::Draw> Table::try_draw(const BatchView& batch, double importance_exponent) {
  return impl_->draw(batch, importance_exponent, std::nullopt);
}

std::uint64_t Table::update_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities) {
  return impl_->update(keys, priorities);
}

void Table::set_paused(bool paused) {
  bool wake = false;
  {
    const LockGuard lock(impl_->mutex);
    impl_->paused = paused;
    wake = impl_->end_holds();
  }
  if (wake) impl_->wakers.wake_all();
}

void Table::close() { impl_->close(false); }
void Table::retire() { impl_->close(true); }

void Table::Impl::close(bool for_good) {
  {
    const LockGuard lock(mutex);
    closed = true;
    retired = retired || for_good;
    insert_held.allow();
    sample_held.allow();
    insert_allowed.notify_all();
    sample_allowed.notify_all();
    unpinned.notify_all();
  }
  wakers.wake_all();
}

void Table::reopen() {
  const LockGuard lock(impl_->mutex);
  if (impl_->retired)
    throw Error(ErrorKind::kClosed, "the table is closed for good: it was dropped, or the server is closed");
  impl_->closed = false;
}

void Table::flush() const {
  impl_->insert_mutex.lock();
  const Impl::InsertTurn turn(*impl_);  // an insert that is under way comes first
  impl_->reserved().arena().flush();
}

std::uint64_t Table::add_waker(Wake wake) { return impl_->wakers.add(std::move(wake)); }
void Table::remove_waker(std::uint64_t id) { impl_->wakers.remove(id); }

void Table::save(const std::string& path) const { impl_->save(path); }
void Table::restore(const std::string& path) { impl_->restore(path); }

TableStats Table::stats() const { return impl_->stats(); }

}  // namespace headrace
