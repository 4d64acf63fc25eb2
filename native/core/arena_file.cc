#include "core/arena_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "core/chunk.h"
#include "core/entropy.h"
#include "core/error.h"
#include "core/sealed.h"

namespace headrace {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kRing = 2 * kPage;              // where it begins
constexpr std::uint64_t kMagic = 0x35414e4552415248;  // "HRARENA5"
constexpr std::uint64_t kAnyVersion = 0x00ffffffffffffff;
constexpr const char* kVersion = "5";

constexpr std::uint64_t kUnknown = 0;  // which no key is sealed as

}  // namespace

struct ArenaFile::Header {
  std::uint64_t magic;                 // written last at creation: zero in a file whose creation did not finish
  std::uint64_t oldest_key, next_key;  // sealed; of the first copy alone
  std::uint64_t capacity;
  std::uint32_t checksum;  // of magic, capacity, mark and signature
  std::uint32_t mark;
  char signature[kPage - 8 - 32];  // zero-padded text

  bool whole() const { return magic == kMagic && checksum == computed(); }
  std::uint32_t computed() const {
    const std::array<std::uint64_t, 2> numbers{kMagic, capacity};
    const std::uint32_t marked = crc32c(std::as_bytes(std::span(&mark, 1)), crc32c(std::as_bytes(std::span(numbers))));
    return crc32c(std::as_bytes(std::span(signature)), marked);
  }
};

ArenaFile::Header& ArenaFile::header(std::size_t copy) const {
  return *reinterpret_cast<Header*>(mapping_->data() + copy * kPage);
}

std::uint32_t ArenaFile::mark() const { return header().mark; }

std::byte* ArenaFile::ring() { return mapping_->data() + kRing; }

std::vector<ArenaFile::Part> ArenaFile::written() const {
  std::vector<Part> parts;
  for (auto at = static_cast<off_t>(kRing); at < static_cast<off_t>(kRing + capacity_);) {
    const off_t begin = lseek(descriptor_, at, SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;  // nothing follows
    const off_t end = begin < 0 ? -1 : lseek(descriptor_, begin, SEEK_HOLE);
    if (end < 0) return {{0, capacity_}};
    parts.push_back({static_cast<std::size_t>(begin) - kRing, static_cast<std::size_t>(end) - kRing});
    at = end;
  }
  return parts;
}

std::optional<std::uint64_t> ArenaFile::oldest_key() const { return unsealed(header().oldest_key); }
std::optional<std::uint64_t> ArenaFile::next_key() const { return unsealed(header().next_key); }

void ArenaFile::set_oldest_key(std::optional<std::uint64_t> key) {
  store_in_order(header().oldest_key, key ? sealed(*key) : kUnknown);
}

void ArenaFile::set_next_key(std::uint64_t key) { store_in_order(header().next_key, sealed(key)); }

void ArenaFile::flush() const {
  if (!mapping_->flush() || fsync(descriptor_) != 0) fail("can't be written", errno);
}

void ArenaFile::fail(const std::string& action, int error) const {
  throw Error(ErrorKind::kSystem, "arena file " + path_ + ": " + action + ": " + std::strerror(error) +
                                      "; the table can't keep its experience there");
}

bool ArenaFile::was_made(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  std::array<std::uint64_t, 2> magics{};
  const bool read = pread(file, &magics[0], 8, 0) == 8 && pread(file, &magics[1], 8, kPage) == 8;
  ::close(file);
  return read && (magics[0] != 0 || magics[1] != 0);
}

ArenaFile::ArenaFile(const Signature& signature, std::size_t capacity_bytes, const std::string& path)
    : path_(path), capacity_(capacity_bytes) {
  static_assert(sizeof(Header) == kPage);
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool made = descriptor_ >= 0;
  if (!made && errno == EEXIST) descriptor_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) fail("can't be opened", errno);
  bool locked = false, fresh = false;
  try {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) fail("is in use by another table or process", errno);
    locked = true;
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) fail("can't be examined", errno);
    if (!S_ISREG(found.st_mode)) fail("is not a regular file", EINVAL);
    fresh = found.st_size == 0;
    const std::size_t wanted = kRing + capacity_;
    if (!fresh && static_cast<std::size_t>(found.st_size) != wanted)
      refuse_size(static_cast<std::size_t>(found.st_size), wanted);
    const int space = posix_fallocate(descriptor_, 0, static_cast<off_t>(wanted));
    if (space != 0) fail(std::to_string(wanted) + " bytes can't be allocated", space);
    mapping_.emplace(descriptor_, wanted, "arena file " + path);
    if (header(0).magic == 0 && header(1).magic == 0) create(signature.encode());
    mend();
    check(signature.encode());
  } catch (...) {
    // What this process made may be another's by now, which opened and locked it first.
    if (locked && (made || (fresh && ftruncate(descriptor_, 0) != 0))) unlink(path.c_str());
    ::close(descriptor_);
    throw;
  }
}

ArenaFile::~ArenaFile() {
  mapping_.reset();  // while the lock on the file is held
  ::close(descriptor_);
}

void ArenaFile::create(const std::string& signature) {
  const auto mark = static_cast<std::uint32_t>(draw_entropy());
  for (const std::size_t copy : {1, 0}) {
    Header& fresh = header(copy);
    std::memset(&fresh, 0, sizeof(Header));
    fresh.capacity = capacity_;
    fresh.mark = mark;
    signature.copy(fresh.signature, sizeof(fresh.signature) - 1);
    fresh.checksum = fresh.computed();
    set_oldest_key(0);
    set_next_key(0);
    store_in_order(fresh.magic, kMagic);
  }
  flush();
}

// Replaces a damaged copy with the other one.
void ArenaFile::mend() {
  for (const std::size_t copy : {0, 1}) {
    Header &damaged = header(copy), &other = header(1 - copy);
    if (damaged.whole() || !other.whole()) continue;
    damaged.capacity = other.capacity;
    damaged.checksum = other.checksum;
    damaged.mark = other.mark;
    std::memcpy(damaged.signature, other.signature, sizeof(other.signature));
    damaged.magic = kMagic;
  }
}

void ArenaFile::refuse_size(std::size_t found, std::size_t wanted) const {
  std::uint64_t magic = 0;
  const bool read = pread(descriptor_, &magic, sizeof(magic), 0) == sizeof(magic);
  if (read && magic != kMagic && (magic & kAnyVersion) == (kMagic & kAnyVersion)) refuse_format();
  throw Error(ErrorKind::kMismatch, "arena file " + path_ + " has " + std::to_string(found) +
                                        " bytes, but capacity_bytes " + std::to_string(capacity_) + " needs " +
                                        std::to_string(wanted) + "; keep the setting, or move the file away");
}

void ArenaFile::refuse_format() const {
  throw Error(ErrorKind::kCorrupt, "arena file " + path_ + ": its header is not that of an arena of version " +
                                       kVersion + ", or is damaged; nothing was read from it");
}

void ArenaFile::check(const std::string& signature) const {
  const Header& found = header();
  if (!found.whole()) refuse_format();
  const std::string stored(found.signature, strnlen(found.signature, sizeof(found.signature)));
  if (stored != signature || found.capacity != capacity_) {
    throw Error(ErrorKind::kMismatch, "arena file " + path_ + " holds " + stored + " in " +
                                          std::to_string(found.capacity) + " bytes, but the table needs " + signature +
                                          " in " + std::to_string(capacity_) +
                                          " bytes; keep these settings, or move "
                                          "the file away");
  }
}

}  // namespace headrace
