#include "core/arena_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kMagic = 0x31414e4552415248;  // "HRARENA1"
constexpr std::uint32_t kVersion = 2;

}  // namespace

struct ArenaFile::Header {
  std::uint64_t magic;  // written last at creation: zero in a file whose creation did not finish
  std::uint64_t oldest;
  std::uint32_t checksum;  // of everything below
  std::uint32_t version;
  std::uint64_t capacity;
  char signature[kPage - 32];  // zero-padded text

  std::uint32_t computed() const {
    const auto* begin = reinterpret_cast<const std::byte*>(&version);
    return crc32c({begin, reinterpret_cast<const std::byte*>(this) + sizeof(Header)});
  }
};

ArenaFile::Header& ArenaFile::header() const { return *reinterpret_cast<Header*>(memory_); }

std::byte* ArenaFile::ring() { return memory_ + kPage; }

std::uint64_t ArenaFile::oldest() const { return header().oldest; }

void ArenaFile::set_oldest(std::uint64_t offset) {
  // In order with the chunks' bytes on either side: a killed process must leave what recovery expects.
  std::atomic_ref(header().oldest).store(offset, std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void ArenaFile::flush() const {
  if (msync(memory_, kPage + capacity_, MS_SYNC) != 0 || fsync(descriptor_) != 0) fail("can't be written", errno);
}

void ArenaFile::fail(const std::string& action, int error) const {
  throw Error(ErrorKind::kSystem, "arena file " + path_ + ": " + action + ": " + std::strerror(error) +
                                      "; the table can't keep its experience there");
}

ArenaFile::ArenaFile(const Signature& signature, std::size_t capacity_bytes, const std::string& path)
    : path_(path), capacity_(capacity_bytes) {
  static_assert(sizeof(Header) == kPage);
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("can't be opened", errno);
  bool fresh = false;
  try {
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) fail("is in use by another table or process", errno);
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) fail("can't be examined", errno);
    fresh = found.st_size == 0;
    const std::size_t wanted = kPage + capacity_;
    if (!fresh && static_cast<std::size_t>(found.st_size) != wanted) {
      throw Error(ErrorKind::kRefused, "arena file " + path_ + " has " + std::to_string(found.st_size) +
                                           " bytes, but capacity_bytes " + std::to_string(capacity_) + " needs " +
                                           std::to_string(wanted) + "; keep the setting, or move the file away");
    }
    const int space = posix_fallocate(descriptor_, 0, static_cast<off_t>(wanted));
    if (space != 0) fail(std::to_string(wanted) + " bytes can't be allocated", space);
    void* memory = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
    if (memory == MAP_FAILED) fail(std::to_string(wanted) + " bytes can't be mapped", errno);
    memory_ = static_cast<std::byte*>(memory);
    if (header().magic == 0) create(signature.encode());
    check(signature.encode());
  } catch (...) {
    if (memory_ != nullptr) munmap(memory_, kPage + capacity_);
    if (fresh) unlink(path.c_str());
    ::close(descriptor_);
    throw;
  }
}

ArenaFile::~ArenaFile() {
  munmap(memory_, kPage + capacity_);
  ::close(descriptor_);
}

void ArenaFile::create(const std::string& signature) {
  Header& fresh = header();
  std::memset(&fresh, 0, sizeof(Header));
  fresh.oldest = kNone;
  fresh.version = kVersion;
  fresh.capacity = capacity_;
  signature.copy(fresh.signature, sizeof(fresh.signature) - 1);
  fresh.checksum = fresh.computed();
  msync(memory_, kPage, MS_SYNC);
  fresh.magic = kMagic;
}

void ArenaFile::check(const std::string& signature) const {
  const Header& found = header();
  if (found.magic != kMagic || found.version != kVersion || found.checksum != found.computed()) {
    throw Error(ErrorKind::kCorrupt, "arena file " + path_ + ": its header is not that of an arena of version " +
                                         std::to_string(kVersion) + ", or is damaged; nothing was read from it");
  }
  const std::string stored(found.signature, strnlen(found.signature, sizeof(found.signature)));
  if (stored != signature || found.capacity != capacity_) {
    throw Error(ErrorKind::kRefused, "arena file " + path_ + " holds " + stored + " in " +
                                         std::to_string(found.capacity) + " bytes, but the table needs " + signature +
                                         " in " + std::to_string(capacity_) + "; move the file away to start anew");
  }
}

}  // namespace headrace
