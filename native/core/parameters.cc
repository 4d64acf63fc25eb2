#include "core/parameters.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kRefused, "parameters \"" + name + "\": " + why);
}

[[noreturn]] void refuse_version(const std::string& name, std::uint64_t version, std::uint64_t stored) {
  refuse(name, "version " + std::to_string(version) + " is not above the stored version " + std::to_string(stored) +
                   "; the stored one stays");
}

}  // namespace

std::uint64_t Parameters::admit(const std::string& name, std::uint64_t version) const {
  const auto found = blobs_.find(name);
  if (found == blobs_.end() && blobs_.size() >= kMaxNames) {
    refuse(name, "there are " + std::to_string(kMaxNames) + " names already, which is the limit; nothing is stored");
  }
  const std::uint64_t stored = found == blobs_.end() ? 0 : found->second->version;
  if (version == 0) return stored + 1;
  if (version <= stored) refuse_version(name, version, stored);
  return version;
}

// Bytes are compared and copied without the lock, which every fetch takes: a blob may be large.
std::uint64_t Parameters::publish(const std::string& name, std::uint64_t version, std::span<const std::byte> bytes) {
  std::shared_ptr<Blob> made;
  for (;;) {
    std::shared_ptr<const Blob> other;  // of that version, or the one replaced; freed after the lock is gone
    {
      const LockGuard lock(mutex_);
      const auto found = blobs_.find(name);
      if (found != blobs_.end() && found->second->version == version) {
        other = found->second;
      } else {
        const std::uint64_t admitted = admit(name, version);
        if (made) {
          made->version = admitted;
          other = std::exchange(found != blobs_.end() ? found->second : blobs_[name], std::move(made));
          return admitted;
        }
      }
    }
    if (other) {
      if (std::ranges::equal(other->bytes, bytes)) return version;
      refuse_version(name, version, version);
    }
    auto share = budget_.take(bytes.size(), "parameters \"" + name + "\"");
    made = std::make_shared<Blob>(Blob{version, {bytes.begin(), bytes.end()}, std::move(share)});
  }
}

std::shared_ptr<const Blob> Parameters::fetch(const std::string& name, std::uint64_t newer_than) const {
  const LockGuard lock(mutex_);
  const auto found = blobs_.find(name);
  return found != blobs_.end() && found->second->version > newer_than ? found->second : nullptr;
}

std::vector<std::pair<std::string, std::shared_ptr<const Blob>>> Parameters::list() const {
  const LockGuard lock(mutex_);
  return {blobs_.begin(), blobs_.end()};
}

std::size_t Parameters::drop(std::string_view prefix) {
  std::vector<std::shared_ptr<const Blob>> dropped;  // freed after the lock is gone
  const LockGuard lock(mutex_);
  for (auto at = blobs_.begin(); at != blobs_.end();) {
    const auto next = std::next(at);
    if (at->first.starts_with(prefix)) dropped.push_back(std::move(blobs_.extract(at).mapped()));
    at = next;
  }
  return dropped.size();
}

}  // namespace headrace
