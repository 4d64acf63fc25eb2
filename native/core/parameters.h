// Named, versioned blobs: publish, and fetch if newer. Nothing is sent if there is no newer version. A blob may arrive
// in parts, and is published once it is whole.
//
// Threading: every method may be called from any thread. A blob is immutable and shared; a fetch never copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/huge_array.h"
#include "core/memory_budget.h"
#include "core/mutex.h"

namespace headrace {

struct Blob {
  std::uint64_t version = 0;
  std::vector<std::byte, HugeAllocator<std::byte>> bytes = {};
  MemoryBudget::Share share = {};
};

class Publication;

class Parameters {
 public:
  static constexpr std::size_t kMaxNames = 4096;
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;  // of a blob

  explicit Parameters(MemoryBudget& budget) : budget_(budget) {}  // which outlives it and its blobs

  // Replaces the blob of that name. Versions rise: kRefused if `version` is not above the stored one; 0 = the next.
  // Publishing the stored version with the same bytes again is not an error and changes nothing: the answer was lost.
  // kRefused, too, above kMaxBytes, and where the budget or kMaxNames is reached. Returns the version stored.
  std::uint64_t publish(const std::string& name, std::uint64_t version, std::span<const std::byte> bytes);
  // A blob of so many bytes, none of which are there yet. Throws what publish() would, as far as it is known now.
  Publication begin(const std::string& name, std::uint64_t version, std::uint64_t size);
  // The blob if its version is above `newer_than`, else null (also where there is none of that name).
  std::shared_ptr<const Blob> fetch(const std::string& name, std::uint64_t newer_than = 0) const;
  std::vector<std::pair<std::string, std::shared_ptr<const Blob>>> list() const;
  std::size_t drop(std::string_view prefix);  // drops every blob whose name has that prefix; returns their number

 private:
  friend class Publication;
  std::uint64_t admit(const std::string& name, std::uint64_t version) const REQUIRES(mutex_);  // what is stored
  // The stored blob where it has that version, else null: then that version may be stored.
  std::shared_ptr<const Blob> same(const std::string& name, std::uint64_t version) const EXCLUDES(mutex_);
  // The blob of that version from now on: `made`, unless another one arrived earlier.
  std::shared_ptr<const Blob> store(const std::string& name, const std::shared_ptr<Blob>& made) EXCLUDES(mutex_);

  MemoryBudget& budget_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const Blob>> blobs_ GUARDED_BY(mutex_);
};

// A blob on its way to the Parameters that made this, which outlive it. Threading: one thread at a time.
class Publication {
 public:
  // The bytes that follow those of earlier calls. The version, once the blob is whole and published. Throws kInvalid
  // for more bytes than its size, and what Parameters::publish() throws; it is of no more use then.
  std::optional<std::uint64_t> add(std::span<const std::byte> part);
  // Whether a part at `offset` of a blob of that name, version and size comes next.
  bool continues(const std::string& name, std::uint64_t version, std::uint64_t size, std::uint64_t offset) const;

 private:
  friend class Parameters;
  Publication(Parameters& parameters, std::string name, std::uint64_t version, std::uint64_t size);

  Parameters* parameters_;
  std::string name_;
  std::uint64_t version_;
  std::uint64_t size_;
  std::uint64_t received_ = 0;
  std::shared_ptr<const Blob> same_;  // of that version: what arrives must be equal
  std::shared_ptr<Blob> made_;
};

}  // namespace headrace
