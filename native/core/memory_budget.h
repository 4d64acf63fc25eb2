// A bound on memory that peers can make a server take: bytes are reserved before they are allocated.
//
// Threading: every method may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace headrace {

class MemoryBudget {
 public:
  static constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

  // Reserved bytes, released with this object, which the budget outlives.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->used_.fetch_sub(bytes_);
    }
    std::uint64_t bytes() const { return bytes_; }
    void shrink(std::uint64_t bytes) {  // to as many, where there are more
      if (bytes < bytes_) budget_->used_.fetch_sub(std::exchange(bytes_, bytes) - bytes);
    }
    void add(Share other) {  // of the same budget
      if (other.budget_ == nullptr) return;
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ += std::exchange(other.bytes_, 0);
    }

   private:
    friend class MemoryBudget;
    Share(MemoryBudget& budget, std::uint64_t bytes) : budget_(&budget), bytes_(bytes) {}
    MemoryBudget* budget_ = nullptr;
    std::uint64_t bytes_ = 0;
  };

  explicit MemoryBudget(std::uint64_t limit_bytes = kUnlimited) : limit_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  std::optional<Share> try_take(std::uint64_t bytes);
  // Throws kRefused, naming the purpose, and the bytes requested, used and allowed.
  Share take(std::uint64_t bytes, std::string_view purpose);

  std::uint64_t limit() const { return limit_; }
  std::uint64_t used() const { return used_.load(); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_ = 0;
};

}  // namespace headrace
