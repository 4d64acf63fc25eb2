#include "core/parameters.h"

#include <utility>

#include "core/error.h"

namespace headrace {

std::uint64_t Parameters::publish(const std::string& name, std::uint64_t version, std::vector<std::byte> bytes) {
  auto blob = std::make_shared<Blob>(Blob{version, std::move(bytes)});
  std::shared_ptr<const Blob> replaced;  // freed after the lock is gone: a blob may be large
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Blob>& stored = blobs_[name];
  const std::uint64_t current = stored ? stored->version : 0;
  if (version == 0) blob->version = current + 1;
  if (blob->version <= current) {
    throw Error(ErrorKind::kRefused, "parameters \"" + name + "\": version " + std::to_string(version) +
                                         " is not above the stored version " + std::to_string(current) +
                                         "; the stored one stays");
  }
  replaced = std::exchange(stored, blob);
  return blob->version;
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

}  // namespace headrace
