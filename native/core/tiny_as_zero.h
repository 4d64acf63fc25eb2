// Floating-point numbers too small for full precision as 0, on x86: there each operation on one costs over a hundred
// cycles. They arise where values decay, such as the gradients and the optimizer state of dead units.
//
// Threading: of the thread that creates it, while it lives.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace headrace {

class TinyAsZero {
 public:
#if defined(__SSE__)
  TinyAsZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kZeroOperands); }
  ~TinyAsZero() { _mm_setcsr(before_); }
#else
  TinyAsZero() {}
  ~TinyAsZero() {}
#endif
  TinyAsZero(const TinyAsZero&) = delete;
  TinyAsZero& operator=(const TinyAsZero&) = delete;

 private:
#if defined(__SSE__)
  static constexpr unsigned kFlushResults = 0x8000, kZeroOperands = 0x0040;
  const unsigned before_;
#endif
};

}  // namespace headrace
