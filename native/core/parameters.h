// Named, versioned blobs: publish, and fetch if newer. Nothing is sent if there is no newer version.
//
// Threading: every method may be called from any thread. A blob is immutable and shared; a fetch never copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/memory_budget.h"
#include "core/mutex.h"

namespace headrace {

struct Blob {
  std::uint64_t version = 0;
  std::vector<std::byte> bytes;
  MemoryBudget::Share share = {};
};

class Parameters {
 public:
  static constexpr std::size_t kMaxNames = 4096;

  explicit Parameters(MemoryBudget& budget) : budget_(budget) {}  // which outlives it and its blobs

  // Replaces the blob of that name. Versions rise: kRefused if `version` is not above the stored one; 0 = the next.
  // Publishing the stored version with the same bytes again is not an error and changes nothing: the answer was lost.
  // kRefused, too, where the budget or kMaxNames is reached. Returns the version stored.
  std::uint64_t publish(const std::string& name, std::uint64_t version, std::span<const std::byte> bytes);
  // The blob if its version is above `newer_than`, else null (also where there is none of that name).
  std::shared_ptr<const Blob> fetch(const std::string& name, std::uint64_t newer_than = 0) const;
  std::vector<std::pair<std::string, std::shared_ptr<const Blob>>> list() const;
  std::size_t drop(std::string_view prefix);  // drops every blob whose name has that prefix; returns their number

 private:
  std::uint64_t admit(const std::string& name, std::uint64_t version) const REQUIRES(mutex_);  // what is stored

  MemoryBudget& budget_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Blob>> blobs_ GUARDED_BY(mutex_);
};

}  // namespace headrace
