#include "core/shard_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/kept_files.h"

namespace headrace {
namespace {

constexpr std::string_view kStem = "shard-", kSlots = ".slots", kUnfinished = ".slots.new";

// Saves a shard that has lost updates, before it gets new ones: the next server counts none of them twice. Until it is
// saved, the newest version in its file stays as it was found.
void save_lost(Shard& shard, std::span<std::byte> memory) {
  try {
    shard.save(memory);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kSystem) throw;  // the next save tries again, and its failure is reported
  }
}

}  // namespace

std::span<std::byte> ShardStore::room(std::size_t bytes) {
  if (!copy_ || copy_->size() < bytes) {
    if (bytes > share_.bytes()) share_.add(budget_.take(bytes - share_.bytes(), "the copy that saves a shard"));
    copy_.reset();
    copy_.emplace(bytes);
    std::memset(copy_->data(), 0, bytes);  // its pages are there before a shard's updates wait for a copy
  }
  return {copy_->data(), bytes};
}

void ShardStore::release() {
  const LockGuard lock(copying_);
  copy_.reset();
  share_ = {};
}

ShardStore::Kept ShardStore::recover(std::vector<std::string>& notices) {
  std::map<std::uint64_t, std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    const auto name = parse_kept_file(kStem, file);
    if (!name) continue;
    next_number_ = std::max(next_number_, name->first + 1);  // of every file, also of those set aside
    const std::string path = directory_ + "/" + file;
    if (name->second == kUnfinished) notices.push_back(set_aside(path, "was never finished"));
    if (name->second != kSlots) continue;
    if (std::error_code unknown; at->is_regular_file(unknown)) {
      files[name->first] = path;
    } else {
      notices.push_back(set_aside(path, "is not a file"));
    }
  }
  if (error) {
    throw Error(ErrorKind::kSystem, "data directory " + directory_ + " can't be read: " + error.message());
  }
  Kept kept;
  std::set<std::string> names;
  for (const auto& [number, path] : files) {
    std::string name;
    auto shard = restore(path, kept.size(), name, notices);
    if (!shard) continue;
    if (!names.insert(name).second) {
      notices.push_back(set_aside(path, "has a shard \"" + name + "\", of which there is another file"));
      continue;
    }
    kept.emplace_back(name, std::move(shard));
  }
  return kept;
}

// Null where the file was set aside.
std::shared_ptr<Shard> ShardStore::restore(const std::string& path, std::size_t lane, std::string& name,
                                           std::vector<std::string>& notices) {
  try {
    auto file = std::make_shared<ShardFile>(path);
    name = file->name();
    ShardImage image;
    const LockGuard lock(copying_);
    image.state = room(file->options().state_bytes());
    if (auto note = file->read(image); !note.empty()) notices.push_back(std::move(note));
    const auto parameters = image.state.first(file->options().size * sizeof(float));
    auto shard = std::make_shared<Shard>(file->options(), parameters, budget_, lane);
    const auto latest = file->latest();
    if (!latest) {
      notices.push_back("shard file " + path + ": its newest version is damaged; it may have lost updates");
      file->set_latest(image.version);
    }
    shard->restore(image, latest);
    shard->keep_in(std::move(file));
    if (const auto lost = shard->stats().lost - image.lost; lost > 0) {
      notices.push_back("shard \"" + name + "\": " + std::to_string(lost) +
                        " updates that were made after its last save are lost");
      save_lost(*shard, image.state);
    }
    return shard;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kRefused) throw Error(error.kind(), "shard file " + path + ": " + error.what());
    if (error.kind() != ErrorKind::kCorrupt && error.kind() != ErrorKind::kInvalid) throw;  // kInvalid: not finite
    notices.push_back(set_aside(path, "can't be used (" + std::string(error.what()) + ")"));
    return nullptr;
  }
}

void ShardStore::keep(const std::string& name, Shard& shard, Shard* replaced) {
  const auto old = replaced != nullptr ? replaced->file() : nullptr;
  const std::string path =
      old ? old->path() : directory_ + "/" + std::string(kStem) + std::to_string(next_number_) + std::string(kSlots);
  const LockGuard lock(copying_);
  auto file = std::make_shared<ShardFile>(path, name, shard.options(), shard.image(room(shard.state_bytes())));
  if (!old) ++next_number_;
  shard.keep_in(std::move(file));
  if (replaced != nullptr) replaced->keep_in(nullptr);
}

void ShardStore::remove(Shard& shard) {
  const auto file = shard.file();
  if (file && unlink(file->path().c_str()) != 0 && errno != ENOENT) {
    throw Error(ErrorKind::kSystem, "shard file " + file->path() + " can't be removed: " + std::strerror(errno));
  }
  shard.keep_in(nullptr);
}

void ShardStore::save(Shard& shard) {
  const LockGuard lock(copying_);
  if (!shard.file()) return;  // it takes no memory that release() has given back
  shard.save(room(shard.state_bytes()));
}

}  // namespace headrace
