#include "core/parameters.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

constexpr auto kLastVersion = std::numeric_limits<std::uint64_t>::max();

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
    refuse(name,
           "there are " + std::to_string(kMaxNames) +
               " names already, which is the limit; nothing is stored. headrace drop removes those of ended runs");
  }
  const std::uint64_t stored = found == blobs_.end() ? 0 : found->second->version;
  const std::uint64_t next = version == 0 ? stored + 1 : version;
  if (next == kLastVersion) refuse(name, "version " + std::to_string(next) + ": there would be none above it");
  if (next <= stored) refuse_version(name, next, stored);
  return next;
}

std::shared_ptr<const Blob> Parameters::same(const std::string& name, std::uint64_t version) const {
  const LockGuard lock(mutex_);
  const auto found = blobs_.find(name);
  if (found != blobs_.end() && found->second->version == version) return found->second;
  admit(name, version);
  return nullptr;
}

std::shared_ptr<const Blob> Parameters::store(const std::string& name, const std::shared_ptr<Blob>& made) {
  std::shared_ptr<const Blob> replaced;  // freed after the lock is gone
  const LockGuard lock(mutex_);
  const auto found = blobs_.find(name);
  if (found != blobs_.end() && found->second->version == made->version) return found->second;
  made->version = admit(name, made->version);
  replaced = std::exchange(blobs_[name], made);
  return made;
}

Publication Parameters::begin(const std::string& name, std::uint64_t version, std::uint64_t size) {
  return Publication(*this, name, version, size);
}

std::uint64_t Parameters::publish(const std::string& name, std::uint64_t version, std::span<const std::byte> bytes) {
  return *begin(name, version, bytes.size()).add(bytes);
}

Publication::Publication(Parameters& parameters, std::string name, std::uint64_t version, std::uint64_t size)
    : parameters_(&parameters), name_(std::move(name)), version_(version), size_(size) {
  same_ = parameters.same(name_, version);
  if (same_ && same_->bytes.size() != size) refuse_version(name_, version, version);
  if (same_) return;
  if (size > Parameters::kMaxBytes) {
    throw Error(ErrorKind::kRefused, "parameters \"" + name_ + "\" of " + std::to_string(size) + " bytes: at most " +
                                         std::to_string(Parameters::kMaxBytes));
  }
  auto share = parameters.budget_.take(size, "parameters \"" + name_ + "\"");
  made_ = std::make_shared<Blob>(Blob{.version = version, .share = std::move(share)});
  made_->bytes.reserve(size);
}

bool Publication::continues(const std::string& name, std::uint64_t version, std::uint64_t size,
                            std::uint64_t offset) const {
  return name == name_ && version == version_ && size == size_ && offset == received_;
}

// Bytes are compared and copied without the lock, which every fetch takes.
std::optional<std::uint64_t> Publication::add(std::span<const std::byte> part) {
  if (part.size() > size_ - received_) {
    throw Error(ErrorKind::kInvalid, "parameters \"" + name_ + "\": " + std::to_string(received_ + part.size()) +
                                         " bytes of a blob of " + std::to_string(size_) + "; nothing is stored");
  }
  if (!same_) {
    made_->bytes.insert(made_->bytes.end(), part.begin(), part.end());
  } else if (!std::ranges::equal(std::span(same_->bytes).subspan(received_, part.size()), part)) {
    refuse_version(name_, version_, version_);
  }
  received_ += part.size();
  if (received_ < size_) return std::nullopt;
  if (same_) return version_;
  const auto stored = parameters_->store(name_, made_);
  if (stored != made_ && !std::ranges::equal(stored->bytes, made_->bytes)) refuse_version(name_, version_, version_);
  return stored->version;
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
