#include "core/batch_ahead.h"

#include <deque>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"
#include "core/quiet_thread.h"

namespace headrace {

struct BatchAhead::Impl {
  Impl(Table& table, std::vector<BatchView> buffers, double importance_exponent)
      : table(table), buffers(std::move(buffers)), importance_exponent(importance_exponent) {
    for (std::size_t i = 0; i < this->buffers.size(); ++i) free.push_back(i);
  }

  void run() EXCLUDES(mutex);
  bool fill(std::size_t index, double exponent) EXCLUDES(mutex);

  Table& table;
  const std::vector<BatchView> buffers;

  Mutex mutex;
  ConditionVariable changed;
  std::deque<std::size_t> free GUARDED_BY(mutex);
  std::deque<std::size_t> full GUARDED_BY(mutex);
  double importance_exponent GUARDED_BY(mutex);
  bool stopping GUARDED_BY(mutex) = false;
  std::exception_ptr error GUARDED_BY(mutex);

  std::thread thread;
};

void BatchAhead::Impl::run() {
  const LockGuard lock(mutex);
  try {
    for (;;) {
      while (!stopping && free.empty()) changed.wait(mutex);
      if (stopping) return;
      const std::size_t index = free.front();
      const double exponent = importance_exponent;
      bool filled = false;
      {
        const UnlockGuard unlocked(mutex);
        filled = fill(index, exponent);
      }
      if (!filled) continue;
      free.pop_front();  // release() only appends, so it is still this one
      full.push_back(index);
      changed.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
    changed.notify_all();
  }
}

// Waits in short slices: the table is not told of a stop, which therefore takes at most one slice.
bool BatchAhead::Impl::fill(std::size_t index, double exponent) {
  constexpr auto kTurn = std::chrono::milliseconds(20);
  return table.sample(buffers[index], exponent, std::chrono::steady_clock::now() + kTurn);
}

BatchAhead::BatchAhead(Table& table, std::vector<BatchView> buffers, double importance_exponent) {
  if (buffers.size() < 2) {
    throw Error(ErrorKind::kInvalid, "buffers: " + std::to_string(buffers.size()) +
                                         ", but there must be at least 2: one that is read and one that is filled");
  }
  impl_ = std::make_unique<Impl>(table, std::move(buffers), importance_exponent);
  impl_->thread = start_quiet_thread([impl = impl_.get()] { impl->run(); });
}

BatchAhead::~BatchAhead() {
  {
    const LockGuard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

std::optional<std::size_t> BatchAhead::next(Deadline deadline) {
  const LockGuard lock(impl_->mutex);
  while (impl_->full.empty() && !impl_->error) {
    if (!impl_->changed.wait_until(impl_->mutex, deadline)) break;
  }
  if (impl_->full.empty()) {
    if (impl_->error) std::rethrow_exception(impl_->error);
    return std::nullopt;
  }
  const std::size_t index = impl_->full.front();
  impl_->full.pop_front();
  return index;
}

void BatchAhead::release(std::size_t index) {
  {
    const LockGuard lock(impl_->mutex);
    if (index >= impl_->buffers.size()) {
      throw Error(ErrorKind::kInvalid, "buffer index is " + std::to_string(index) + ", but there are " +
                                           std::to_string(impl_->buffers.size()));
    }
    impl_->free.push_back(index);
  }
  impl_->changed.notify_all();
}

void BatchAhead::set_importance_exponent(double importance_exponent) {
  const LockGuard lock(impl_->mutex);
  impl_->importance_exponent = importance_exponent;
}

}  // namespace headrace
