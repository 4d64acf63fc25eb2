// Zeroed memory for large flat arrays: mapped, never moved, on huge pages where the system has them, because random
// reads over gigabytes of 4 KiB pages cost a page walk each.
//
// Threading: not thread-safe.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace headrace {

// Throws kSystem if the memory cannot be mapped. Pages are allocated on first access.
std::byte* map_huge(std::size_t bytes);
void unmap_huge(std::byte* memory, std::size_t bytes) noexcept;

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

}  // namespace headrace
