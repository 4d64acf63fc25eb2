#include "core/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

struct BlockHeader {
  std::uint64_t bytes;
  std::uint32_t checksum;       // of the block
  std::uint32_t self_checksum;  // of the two fields above, so that a damaged length is never believed
};
static_assert(sizeof(BlockHeader) == 16);

std::uint32_t self_checksum(const BlockHeader& header) {
  return crc32c(std::as_bytes(std::span(&header, 1)).first(offsetof(BlockHeader, self_checksum)));
}

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw Error(ErrorKind::kSystem, "snapshot " + path + " can't be " + action + ": " + std::strerror(errno));
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::string path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {
  if (descriptor_ < 0) fail(path_, "created");
}

SnapshotWriter::~SnapshotWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SnapshotWriter::write(const void* bytes, std::size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "written");
    at += written;
    size -= static_cast<std::size_t>(written);
  }
}

void SnapshotWriter::put(std::span<const std::byte> block) {
  BlockHeader header{block.size(), crc32c(block), 0};
  header.self_checksum = self_checksum(header);
  write(&header, sizeof(header));
  write(block.data(), block.size());
}

void SnapshotWriter::finish() {
  if (fsync(descriptor_) != 0) fail(path_, "written");
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_, "written");
}

SnapshotReader::SnapshotReader(std::string path)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(path_, "opened");
  struct stat found {};
  if (fstat(descriptor_, &found) != 0 || !S_ISREG(found.st_mode)) {
    ::close(descriptor_);
    corrupt("it is not a file");
  }
  left_ = static_cast<std::uint64_t>(found.st_size);
}

SnapshotReader::~SnapshotReader() { ::close(descriptor_); }

void SnapshotReader::corrupt(const std::string& what) const {
  throw Error(ErrorKind::kCorrupt, "snapshot " + path_ + " is damaged: " + what + "; nothing was restored from it");
}

void SnapshotReader::read(void* bytes, std::size_t size) {
  if (size > left_) corrupt("it is cut short");
  left_ -= size;
  char* at = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = ::read(descriptor_, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read");
    if (got == 0) corrupt("it is cut short");
    at += got;
    size -= static_cast<std::size_t>(got);
  }
}

std::span<const std::byte> SnapshotReader::get() {
  BlockHeader header{};
  read(&header, sizeof(header));
  if (header.self_checksum != self_checksum(header)) corrupt("a block's header does not match its checksum");
  if (header.bytes > left_) corrupt("it is cut short");
  block_.resize(header.bytes);
  read(block_.data(), block_.size());
  if (header.checksum != crc32c(block_)) corrupt("a block does not match its checksum");
  return block_;
}

void SnapshotReader::finish() {
  if (left_ != 0) corrupt(std::to_string(left_) + " bytes follow its end");
}

}  // namespace headrace
