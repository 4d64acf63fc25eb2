#include "core/entropy.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace headrace {

void fill_with_entropy(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = ::getrandom(bytes.data(), bytes.size(), 0);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      throw Error(ErrorKind::kSystem, std::string("random numbers: ") + std::strerror(errno));
    }
  }
}

std::uint64_t draw_entropy() {
  std::uint64_t number = 0;
  while (number == 0) fill_with_entropy(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

}  // namespace headrace
