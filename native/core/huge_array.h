// Zeroed memory for large flat arrays: mapped, never moved, on huge pages where the system has them, because random
// reads over gigabytes of 4 KiB pages cost a page walk each.
//
// Threading: not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace headrace {

// Throws kSystem if the memory cannot be mapped. Pages are allocated on first access.
std::byte* map_huge(std::size_t bytes);
void unmap_huge(std::byte* memory, std::size_t bytes) noexcept;

// As map_huge() and unmap_huge(), for memory that is often replaced by memory of the same size. Up to two released
// blocks of at most 64 MiB are used again, with their old contents: new pages take longer than a copy into them, and
// much longer where the host of a virtual machine has to provide them. Any thread.
std::byte* take_huge(std::size_t bytes);
void keep_huge(std::byte* memory, std::size_t bytes) noexcept;

// Asks for huge pages. With small ones there are 512 times as many page faults, which take longer than a copy.
void advise_huge(std::byte* memory, std::size_t bytes) noexcept;

// `T` is plain data, for which all-zero bytes are a valid value.
template <class T>
class HugeArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit HugeArray(std::size_t size) : size_(size), data_(reinterpret_cast<T*>(map_huge(size * sizeof(T)))) {}
  ~HugeArray() {
    if (data_ != nullptr) unmap_huge(reinterpret_cast<std::byte*>(data_), size_ * sizeof(T));
  }
  HugeArray(HugeArray&& other) noexcept : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  HugeArray& operator=(HugeArray&&) = delete;

  std::size_t size() const { return size_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t index) { return data_[index]; }
  const T& operator[](std::size_t index) const { return data_[index]; }

 private:
  std::size_t size_;
  T* data_;
};

// For vectors that may be large, and are often replaced by one of the same size.
template <class T>
struct HugeAllocator {
  using value_type = T;
  static constexpr std::size_t kSmallest = std::size_t{2} << 20;  // bytes; fewer come from the heap

  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}
  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    return bytes < kSmallest ? std::allocator<T>().allocate(count) : reinterpret_cast<T*>(take_huge(bytes));
  }
  void deallocate(T* memory, std::size_t count) noexcept {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kSmallest) return std::allocator<T>().deallocate(memory, count);
    keep_huge(reinterpret_cast<std::byte*>(memory), bytes);
  }
  bool operator==(const HugeAllocator&) const = default;
};

}  // namespace headrace
