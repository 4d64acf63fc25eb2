// Named, versioned blobs: publish, and fetch if newer. Nothing moves when nothing is new.
//
// Threading: every method may be called from any thread. A blob is immutable and shared; a fetch never copies it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace headrace {

struct Blob {
  std::uint64_t version = 0;
  std::vector<std::byte> bytes;
};

class Parameters {
 public:
  // Replaces the blob of that name. Versions rise: kRefused if `version` is not above the stored one; 0 = the next.
  // Returns the version stored.
  std::uint64_t publish(const std::string& name, std::uint64_t version, std::vector<std::byte> bytes);
  // The blob if its version is above `newer_than`, else null (also where there is none of that name).
  std::shared_ptr<const Blob> fetch(const std::string& name, std::uint64_t newer_than = 0) const;
  std::vector<std::pair<std::string, std::shared_ptr<const Blob>>> list() const;

 private:
  mutable std::mutex mutex_;  // guards blobs_
  std::unordered_map<std::string, std::shared_ptr<const Blob>> blobs_;
};

}  // namespace headrace
