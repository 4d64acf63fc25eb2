#include "core/parameters.h"

#include <iterator>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kRefused, "parameters \"" + name + "\": " + why);
}

}  // namespace

std::uint64_t Parameters::publish(const std::string& name, std::uint64_t version, std::vector<std::byte> bytes) {
  std::shared_ptr<const Blob> replaced;  // freed after the lock is gone: a blob may be large
  const std::lock_guard lock(mutex_);
  const auto found = blobs_.find(name);
  const bool is_new = found == blobs_.end();
  const std::uint64_t current = is_new ? 0 : found->second->version;
  if (version != 0 && version == current && found->second->bytes == bytes) return current;
  if (version == 0) version = current + 1;
  if (version <= current) {
    refuse(name, "version " + std::to_string(version) + " is not above the stored version " + std::to_string(current) +
                     "; the stored one stays");
  }
  if (is_new && blobs_.size() >= kMaxNames) {
    refuse(name, "there are " + std::to_string(kMaxNames) + " names already, which is the limit; nothing is stored");
  }
  auto share = budget_.take(bytes.size(), "parameters \"" + name + "\"");
  auto blob = std::make_shared<const Blob>(Blob{version, std::move(bytes), std::move(share)});
  replaced = std::exchange(is_new ? blobs_[name] : found->second, std::move(blob));
  return version;
}

std::shared_ptr<const Blob> Parameters::fetch(const std::string& name, std::uint64_t newer_than) const {
  const std::lock_guard lock(mutex_);
  const auto found = blobs_.find(name);
  return found != blobs_.end() && found->second->version > newer_than ? found->second : nullptr;
}

std::vector<std::pair<std::string, std::shared_ptr<const Blob>>> Parameters::list() const {
  const std::lock_guard lock(mutex_);
  return {blobs_.begin(), blobs_.end()};
}

std::size_t Parameters::drop(std::string_view prefix) {
  std::vector<std::shared_ptr<const Blob>> dropped;  // freed after the lock is gone
  const std::lock_guard lock(mutex_);
  for (auto at = blobs_.begin(); at != blobs_.end();) {
    const auto next = std::next(at);
    if (at->first.starts_with(prefix)) dropped.push_back(std::move(blobs_.extract(at).mapped()));
    at = next;
  }
  return dropped.size();
}

}  // namespace headrace
