#include "core/huge_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/mutex.h"

namespace headrace {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Arrays below one huge page stay on small pages: rounding them up would cost more than it saves.
std::size_t mapped_bytes(std::size_t bytes) {
  return bytes < kHugePage ? round_up(bytes + (bytes == 0), kPage) : round_up(bytes, kHugePage);
}

constexpr std::size_t kMostKeptBytes = std::size_t{64} << 20;  // of a block

struct Block {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;  // mapped
};

Mutex mutex;
std::array<Block, 2> kept GUARDED_BY(mutex);
std::size_t replaced GUARDED_BY(mutex) = 0;  // index of the block that the next one replaces if there is no room

}  // namespace

std::byte* map_huge(std::size_t bytes) {
  const std::size_t wanted = mapped_bytes(bytes);
  const std::size_t slack = wanted >= kHugePage ? kHugePage : 0;
  void* memory = bytes > SIZE_MAX / 2 ? MAP_FAILED
                                      : mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(ErrorKind::kSystem, "memory: " + std::to_string(bytes) + " bytes can't be allocated: " +
                                        std::strerror(bytes > SIZE_MAX / 2 ? ENOMEM : errno) +
                                        "; choose a smaller capacity");
  }
  auto* begin = static_cast<std::byte*>(memory);
  if (slack == 0) return begin;
  const std::size_t before =
      round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (before > 0) munmap(begin, before);
  if (slack > before) munmap(begin + before + wanted, slack - before);
  advise_huge(begin + before, wanted);
  return begin + before;
}

void unmap_huge(std::byte* memory, std::size_t bytes) noexcept { munmap(memory, mapped_bytes(bytes)); }

std::byte* take_huge(std::size_t bytes) {
  if (bytes <= kMostKeptBytes) {
    const LockGuard lock(mutex);
    const auto block = std::ranges::find(kept, mapped_bytes(bytes), &Block::bytes);
    if (block != kept.end()) return std::exchange(*block, {}).memory;
  }
  return map_huge(bytes);
}

void keep_huge(std::byte* memory, std::size_t bytes) noexcept {
  Block released = {memory, mapped_bytes(bytes)};
  if (bytes <= kMostKeptBytes) {
    const LockGuard lock(mutex);
    auto place = std::ranges::find(kept, nullptr, &Block::memory);
    if (place == kept.end()) {
      place = kept.begin() + replaced;
      replaced = (replaced + 1) % kept.size();
    }
    std::swap(released, *place);
  }
  if (released.memory != nullptr) munmap(released.memory, released.bytes);
}

void advise_huge(std::byte* memory, std::size_t bytes) noexcept {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(memory) % kPage;
  madvise(memory + before, bytes - before, MADV_HUGEPAGE);  // advice: where it is refused, small pages serve
}

}  // namespace headrace
