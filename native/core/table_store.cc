#include "core/table_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/arena_file.h"
#include "core/chunk.h"
#include "core/error.h"
#include "core/kept_files.h"

namespace headrace {
namespace {

// Settings: this line with the checksum of all that follows, the two lines of TableOptions::encode(), and the name, of
// any bytes, to the end.
constexpr std::string_view kTitle = "headrace table 1 ";
constexpr std::size_t kDigits = 8;  // of the checksum, in hexadecimal
constexpr std::string_view kStem = "table-";
constexpr const char *kArena = ".arena", *kSettings = ".settings", *kUnfinished = ".settings.new";
constexpr const char* kDropped = ".settings.dropped";

std::string checksum_of(std::string_view text) {
  std::uint32_t checksum = crc32c(std::as_bytes(std::span(text)));
  std::string digits(kDigits, '0');
  for (auto at = digits.rbegin(); at != digits.rend(); ++at, checksum >>= 4) *at = "0123456789abcdef"[checksum & 15];
  return digits;
}

// False, and errno says why, where the bytes are not on the disk.
bool write_whole(const std::string& path, std::string_view bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return false;
  errno = ENOSPC;  // for a write that is cut short, which says no more
  const bool written = ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  const bool whole = written && fsync(file) == 0;
  const int failure = errno;
  ::close(file);
  errno = failure;
  return whole;
}

[[noreturn]] void corrupt(const std::string& settings, const std::string& what) {
  throw Error(ErrorKind::kCorrupt, "table settings " + settings + ": " + what +
                                       "; move the file away to start without this table (its arena, if there is one, "
                                       "is then set aside with the ending .orphan)");
}

}  // namespace

TableStore::TableStore(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);
  descriptor_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) {
    if (error) errno = error.value();
    fail(directory_, "opened");
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int failure = errno;
  ::close(descriptor_);
  if (failure == EWOULDBLOCK) {
    throw Error(ErrorKind::kRefused, "data directory " + directory_ +
                                         ": another server has it; stop that one, or choose "
                                         "another directory");
  }
  errno = failure;
  fail(directory_, "locked");
}

TableStore::~TableStore() { ::close(descriptor_); }

void TableStore::fail(const std::string& path, const char* action) const {
  throw Error(ErrorKind::kSystem, "data directory " + directory_ + ": " + path + " can't be " + action + ": " +
                                      std::strerror(errno) + "; tables can't be kept there");
}

std::string TableStore::path_of(std::uint64_t number, const char* ending) const {
  return directory_ + "/" + std::string(kStem) + std::to_string(number) + ending;
}

void TableStore::sync() const {
  if (fsync(descriptor_) != 0) fail(directory_, "written");
}

std::vector<TableStore::Kept> TableStore::recover() {
  std::set<std::uint64_t> settings, arenas, unfinished, dropped;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    const auto name = parse_kept_file(kStem, file);
    if (!name) continue;
    const auto& [number, ending] = *name;
    next_number_ = std::max(next_number_, number + 1);  // of every file, also of those set aside
    if (ending == kSettings) settings.insert(number);
    if (ending == kArena) arenas.insert(number);
    if (ending == kUnfinished) unfinished.insert(number);
    if (ending == kDropped) dropped.insert(number);
  }
  if (error) {
    errno = error.value();
    fail(directory_, "read");
  }
  std::vector<Kept> kept;
  for (const std::uint64_t number : settings) kept.push_back(read(number));
  for (const std::uint64_t number : dropped) {
    if (!settings.contains(number) && finish_drop(number)) {
      arenas.erase(number);
    } else {
      notices_.push_back(set_aside(path_of(number, kDropped), "is not what a server leaves of a table that it drops"));
    }
  }
  for (const std::uint64_t number : arenas) {
    if (!settings.contains(number)) notices_.push_back(set_aside(path_of(number, kArena), "has no settings file"));
  }
  for (const std::uint64_t number : unfinished)
    notices_.push_back(set_aside(path_of(number, kUnfinished), "was never finished"));
  sync();
  return kept;
}

bool TableStore::finish_drop(std::uint64_t number) {
  const std::string decision = path_of(number, kDropped), arena = path_of(number, kArena);
  try {
    read(decision);
  } catch (const Error&) {
    return false;
  }
  const auto gone = [](const std::string& path) { return unlink(path.c_str()) == 0 || errno == ENOENT; };
  if (!gone(arena) || !gone(decision)) {
    notices_.push_back("the table of " + decision + " was dropped, but its files can't be removed: " +
                       std::strerror(errno) + "; the next start tries again");
  }
  return true;
}

TableStore::Kept TableStore::read(const std::string& settings) const {
  Kept kept;
  kept.settings = settings;
  std::ifstream file(settings, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open()) fail(settings, "read");
  const std::size_t head = kTitle.size() + kDigits + 1;
  const std::string_view body = std::string_view(text).substr(std::min(head, text.size()));
  if (text.substr(0, std::min(head, text.size())) != std::string(kTitle) + checksum_of(body) + "\n") {
    corrupt(settings, "it is damaged, or not of version 1");
  }
  const std::size_t name = body.find('\n', body.find('\n') + 1);
  if (name == std::string_view::npos) corrupt(settings, "it is cut short");
  try {
    kept.options = TableOptions::decode(body.substr(0, name));
  } catch (const Error& error) {
    corrupt(settings, error.what());
  }
  kept.name = body.substr(name + 1);
  return kept;
}

TableStore::Kept TableStore::read(std::uint64_t number) const {
  Kept kept = read(path_of(number, kSettings));
  kept.options.path = path_of(number, kArena);
  if (!ArenaFile::was_made(kept.options.path)) {
    corrupt(kept.settings, "its arena " + kept.options.path + " is missing or its beginning is lost");
  }
  return kept;
}

std::string TableStore::next_arena() { return path_of(next_number_++, kArena); }

void TableStore::keep(const std::string& name, const TableOptions& options) {
  const std::string stem = options.path.substr(0, options.path.size() - std::strlen(kArena));
  const std::string unfinished = stem + kUnfinished;
  const std::string body = options.encode() + "\n" + name;
  const std::string text = std::string(kTitle) + checksum_of(body) + "\n" + body;
  sync();  // the arena's name comes first
  if (!write_whole(unfinished, text) || rename(unfinished.c_str(), (stem + kSettings).c_str()) != 0) {
    const int failure = errno;
    unlink(unfinished.c_str());
    errno = failure;
    fail(unfinished, "written");
  }
  sync();
}

void TableStore::forget(const std::string& arena) {
  const std::string stem = arena.substr(0, arena.size() - std::strlen(kArena));
  const std::string settings = stem + kSettings;
  if (rename(settings.c_str(), (stem + kDropped).c_str()) != 0 && errno != ENOENT) fail(settings, "removed");
}

void TableStore::remove(const std::string& arena) {
  forget(arena);
  sync();
  const std::string decision = arena.substr(0, arena.size() - std::strlen(kArena)) + kDropped;
  for (const std::string& file : {arena, decision}) {
    if (unlink(file.c_str()) != 0 && errno != ENOENT) fail(file, "removed");
  }
}

}  // namespace headrace
