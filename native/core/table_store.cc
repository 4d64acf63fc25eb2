#include "core/table_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

// Settings: this line with the checksum of all that follows, the two lines of TableOptions::encode(), and the name, of
// any bytes, to the end.
constexpr std::string_view kTitle = "headrace table 1 ";
constexpr std::size_t kDigits = 8;  // of the checksum, in hexadecimal
constexpr std::string_view kStem = "table-";
constexpr const char *kArena = ".arena", *kSettings = ".settings", *kUnfinished = ".settings.new";

std::string checksum_of(std::string_view text) {
  std::uint32_t checksum = crc32c(std::as_bytes(std::span(text)));
  std::string digits(kDigits, '0');
  for (auto at = digits.rbegin(); at != digits.rend(); ++at, checksum >>= 4) *at = "0123456789abcdef"[checksum & 15];
  return digits;
}

// N of `table-N<ending>`.
std::optional<std::uint64_t> number_of(std::string_view file, std::string_view ending) {
  if (!file.starts_with(kStem) || !file.ends_with(ending)) return std::nullopt;
  const std::size_t length = file.size() - ending.size();
  if (length <= kStem.size()) return std::nullopt;
  file = file.substr(kStem.size(), length - kStem.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), number);
  const bool canonical = error == std::errc() && end == file.data() + file.size() && file.front() != '0';
  return canonical && number < (std::uint64_t{1} << 62) ? std::optional(number) : std::nullopt;
}

// Whether the file begins as an arena whose creation was finished: its magic is written last.
bool was_made(const std::string& arena) {
  std::ifstream file(arena, std::ios::binary);
  std::array<char, 8> magic{};
  file.read(magic.data(), magic.size());
  return std::any_of(magic.begin(), magic.end(), [](char byte) { return byte != 0; });
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
                                       "; move the file away to start without this table and its experience");
}

}  // namespace

TableStore::TableStore(std::string directory) : directory_(std::move(directory)) {
  std::error_code error;
  std::filesystem::create_directories(directory_, error);  // what is wrong shows below
  descriptor_ = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0) fail(directory_, "opened");
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  const int failure = errno;
  ::close(descriptor_);
  if (failure == EWOULDBLOCK) {
    throw Error(ErrorKind::kRefused, "data directory " + directory_ +
                                         ": another server has it, and one at a time may; end that one, or choose "
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
  std::set<std::uint64_t> settings, arenas;
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory_, error), end; !error && at != end; at.increment(error)) {
    const std::string file = at->path().filename().string();
    if (const auto number = number_of(file, kSettings)) settings.insert(*number);
    if (const auto number = number_of(file, kArena)) arenas.insert(*number);
    if (number_of(file, kUnfinished)) unlink(at->path().c_str());
  }
  if (error) {
    errno = error.value();
    fail(directory_, "read");
  }
  // Above every number met, for an arena without settings stays where it can't be removed.
  for (const auto* numbers : {&settings, &arenas}) {
    if (!numbers->empty()) next_number_ = std::max(next_number_, *numbers->rbegin() + 1);
  }
  for (const std::uint64_t number : arenas) {
    if (!settings.contains(number)) unlink(path_of(number, kArena).c_str());
  }
  std::vector<Kept> kept;
  for (const std::uint64_t number : settings) kept.push_back(read(number));
  return kept;
}

TableStore::Kept TableStore::read(std::uint64_t number) const {
  Kept kept;
  kept.settings = path_of(number, kSettings);
  std::ifstream file(kept.settings, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad() || !file.is_open()) fail(kept.settings, "read");
  const std::size_t head = kTitle.size() + kDigits + 1;
  const std::string_view body = std::string_view(text).substr(std::min(head, text.size()));
  if (text.substr(0, std::min(head, text.size())) != std::string(kTitle) + checksum_of(body) + "\n") {
    corrupt(kept.settings, "it is damaged, or not of version 1");
  }
  const std::size_t name = body.find('\n', body.find('\n') + 1);
  if (name == std::string_view::npos) corrupt(kept.settings, "it is cut short");
  try {
    kept.options = TableOptions::decode(body.substr(0, name));
  } catch (const Error& error) {
    corrupt(kept.settings, error.what());
  }
  kept.name = body.substr(name + 1);
  kept.options.path = path_of(number, kArena);
  if (!was_made(kept.options.path)) {
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
  if (!write_whole(unfinished, text) || rename(unfinished.c_str(), (stem + kSettings).c_str()) != 0) {
    const int failure = errno;
    unlink(unfinished.c_str());
    errno = failure;
    fail(unfinished, "written");
  }
  sync();
}

void TableStore::forget(const std::string& arena) {
  const std::string settings = arena.substr(0, arena.size() - std::strlen(kArena)) + kSettings;
  if (unlink(settings.c_str()) != 0 && errno != ENOENT) fail(settings, "removed");
}

void TableStore::remove(const std::string& arena) {
  forget(arena);
  sync();
  if (unlink(arena.c_str()) != 0 && errno != ENOENT) fail(arena, "removed");
}

}  // namespace headrace
