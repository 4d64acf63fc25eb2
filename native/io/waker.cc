#include "io/waker.h"

#include <sys/eventfd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/error.h"

namespace headrace {

Waker::Waker() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw Error(ErrorKind::kSystem, std::string("eventfd: ") + std::strerror(errno));
}

void Waker::poke() {
  if (poked_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_.get(), &one, sizeof(one));  // fails only when already readable
}

void Waker::acknowledge() {
  std::uint64_t count;
  [[maybe_unused]] const auto taken = ::read(event_.get(), &count, sizeof(count));
  poked_.store(false);
}

}  // namespace headrace
