// A function with a stack of its own that gives control back in the middle: blocking code under a simulation's
// scheduler, without threads.
//
// Threading: one thread.
#pragma once

#include <cxxabi.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEADRACE_ADDRESS_SANITIZER
#elif __has_feature(thread_sanitizer)
#define HEADRACE_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HEADRACE_ADDRESS_SANITIZER
#elif defined(__SANITIZE_THREAD__)
#define HEADRACE_THREAD_SANITIZER
#endif

#ifdef HEADRACE_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HEADRACE_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace headrace::testing {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body) : body_(std::move(body)), stack_(new std::byte[kStackBytes]) {
    getcontext(&own_.context);
    own_.context.uc_stack.ss_sp = stack_.get();
    own_.context.uc_stack.ss_size = kStackBytes;
    own_.stack = stack_.get();
    own_.stack_bytes = kStackBytes;
    own_.context.uc_link = nullptr;
    makecontext(&own_.context, &Fiber::begin, 0);
#ifdef HEADRACE_THREAD_SANITIZER
    own_.sanitized = __tsan_create_fiber(0);
#endif
  }
  ~Fiber() {  // the body has ended
#ifdef HEADRACE_THREAD_SANITIZER
    __tsan_destroy_fiber(own_.sanitized);
#endif
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool ended() const { return ended_; }
  // Runs the body until it suspends or ends; throws what it throws. Not from within a fiber.
  void resume() {
    running_ = this;
#ifdef HEADRACE_THREAD_SANITIZER
    caller_.sanitized = __tsan_get_current_fiber();
#endif
    change(caller_, own_, false);
    running_ = nullptr;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  // Of the running fiber: back to whoever resumed it.
  static void suspend() { change(running_->own_, running_->caller_, false); }

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;

  struct Place {
    ucontext_t context = {};
    std::array<std::byte, 2 * sizeof(void*)> exceptions = {};  // being handled there
    const void* stack = nullptr;
    std::size_t stack_bytes = 0;
    void* sanitized = nullptr;
  };

  static void begin() {
    Fiber& fiber = *running_;
#ifdef HEADRACE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(nullptr, &fiber.caller_.stack, &fiber.caller_.stack_bytes);
#endif
    try {
      fiber.body_();
    } catch (...) {
      fiber.failure_ = std::current_exception();
    }
    fiber.ended_ = true;
    change(fiber.own_, fiber.caller_, true);
  }

  static void change(Place& from, Place& to, [[maybe_unused]] bool for_good) {
    auto* const exceptions = abi::__cxa_get_globals();
    std::memcpy(from.exceptions.data(), exceptions, from.exceptions.size());
    std::memcpy(static_cast<void*>(exceptions), to.exceptions.data(), to.exceptions.size());
#ifdef HEADRACE_ADDRESS_SANITIZER
    void* shadow = nullptr;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &shadow, to.stack, to.stack_bytes);
#endif
#ifdef HEADRACE_THREAD_SANITIZER
    __tsan_switch_to_fiber(to.sanitized, 0);
#endif
    swapcontext(&from.context, &to.context);
#ifdef HEADRACE_ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(shadow, &to.stack, &to.stack_bytes);
#endif
  }

  inline static Fiber* running_ = nullptr;

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  Place own_, caller_;
  bool ended_ = false;
  std::exception_ptr failure_;
};

}  // namespace headrace::testing
