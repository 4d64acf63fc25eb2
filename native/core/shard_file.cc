#include "core/shard_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/chunk.h"
#include "core/error.h"
#include "core/sealed.h"

namespace headrace {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{256} << 10;  // that is checked and written at a time: it stays in the cache
constexpr std::size_t kWorkers = ShardFile::kMaxWorkers * sizeof(ShardImage::Worker);
constexpr std::size_t kState = kPage + kWorkers;      // where it begins in a slot, after the head and the workers
constexpr std::uint64_t kMagic = 0x3144524148535248;  // "HRSHARD1"
constexpr std::uint64_t kUnfinished = 0;              // the magic of a slot that is being written

std::size_t round_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::span<const std::byte> bytes_of(const std::vector<ShardImage::Worker>& workers) {
  return std::as_bytes(std::span(workers));
}

}  // namespace

struct ShardFile::Head {
  std::uint64_t magic;  // written last
  std::uint64_t save;   // number of the image: it rises from 1
  std::uint64_t version, steps, lost;
  std::uint64_t workers;
  std::uint32_t options_length, name_length;
  std::uint32_t body_checksum;  // of workers and state
  std::uint32_t checksum;       // of all that is above, and of the text
  char text[kPage - 64];        // options, then the name

  std::uint32_t computed() const {
    const auto bytes = std::as_bytes(std::span(this, 1));
    return crc32c(bytes.subspan(offsetof(Head, text)), crc32c(bytes.first(offsetof(Head, checksum))));
  }
  bool whole() const {
    const bool fits = std::size_t{options_length} + name_length <= sizeof(text) && workers <= kMaxWorkers;
    return magic == kMagic && checksum == computed() && fits;
  }
};

void ShardFile::fail(const std::string& action, int error) const {
  throw Error(ErrorKind::kSystem, "shard file " + path_ + ": " + action + ": " + std::strerror(error));
}

std::size_t ShardFile::slot_bytes() const { return kState + round_up(options_.state_bytes()); }
std::size_t ShardFile::begin_of(std::size_t slot) const { return kPage + slot * slot_bytes(); }

ShardFile::ShardFile(std::string path, std::string_view name, const ShardOptions& options, const ShardImage& first)
    : path_(std::move(path)), name_(name), options_(options) {
  static_assert(sizeof(Head) == kPage);
  const std::string draft = path_ + ".new";
  descriptor_ = open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) fail("can't be made", errno);
  try {
    const std::size_t bytes = begin_of(2);
    const int space = posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
    if (space != 0) fail(std::to_string(bytes) + " bytes can't be allocated", space);
    map();
    set_latest(first.version);
    save(first);
    if (std::rename(draft.c_str(), path_.c_str()) != 0) fail("can't be made", errno);
  } catch (...) {
    unlink(draft.c_str());
    ::close(descriptor_);
    throw;
  }
}

ShardFile::ShardFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) fail("can't be opened", errno);
  try {
    struct stat found {};
    if (fstat(descriptor_, &found) != 0) fail("can't be examined", errno);
    const auto bytes = static_cast<std::size_t>(found.st_size);
    const std::size_t slot = bytes < kPage ? 0 : (bytes - kPage) / 2;
    for (const std::size_t begin : {kPage, kPage + slot}) {
      Head head;
      if (!S_ISREG(found.st_mode) || !read(std::as_writable_bytes(std::span(&head, 1)), begin) || !head.whole()) {
        continue;
      }
      try {
        options_ = ShardOptions::decode(std::string_view(head.text, head.options_length));
      } catch (const Error&) {
        continue;
      }
      name_.assign(head.text + head.options_length, head.name_length);
      if (bytes != begin_of(2)) {
        throw Error(ErrorKind::kCorrupt, "shard file " + path_ + " has " + std::to_string(bytes) + " bytes, but " +
                                             std::to_string(begin_of(2)) + " are required");
      }
      map();
      return;
    }
    throw Error(ErrorKind::kCorrupt, "shard file " + path_ + " has no slot that is whole");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ShardFile::~ShardFile() { ::close(descriptor_); }

void ShardFile::map() { mapping_.emplace(descriptor_, kPage, "shard file " + path_); }

std::optional<std::uint64_t> ShardFile::latest() const { return unsealed(latest_word()); }

void ShardFile::set_latest(std::uint64_t version) {
  store_in_order(latest_word(), version < kUnsealable ? sealed(version) : 0);
}

void ShardFile::flush() const {
  if (!mapping_->flush() || fdatasync(descriptor_) != 0) fail("can't be written", errno);
}

void ShardFile::write(std::span<const std::byte> bytes, std::size_t at) const {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("can't be written", count < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::size_t>(count);
  }
}

// False where the file ends before, or can't be read there.
bool ShardFile::read(std::span<std::byte> bytes, std::size_t at) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::size_t>(count);
  }
  return true;
}

void ShardFile::save(const ShardImage& image) {
  const std::size_t slot = 1 - newest_, begin = begin_of(slot);
  const auto workers = bytes_of(image.workers);
  const std::string options = options_.encode();
  Head head{};
  head.magic = kMagic;
  head.save = saves_ + 1;
  head.version = image.version;
  head.steps = image.steps;
  head.lost = image.lost;
  head.workers = image.workers.size();
  head.options_length = static_cast<std::uint32_t>(options.size());
  head.name_length = static_cast<std::uint32_t>(name_.size());
  if (options.size() + name_.size() > sizeof(head.text) || workers.size() > kWorkers) fail("can't be written", EFBIG);
  options.copy(head.text, options.size());
  name_.copy(head.text + options.size(), name_.size());

  write(std::as_bytes(std::span(&kUnfinished, 1)), begin);
  head.body_checksum = crc32c(workers);
  write(workers, begin + kPage);
  const std::span<const std::byte> state = image.state;
  for (std::size_t at = 0; at < state.size(); at += kPiece) {
    const auto piece = state.subspan(at, std::min(kPiece, state.size() - at));
    head.body_checksum = crc32c(piece, head.body_checksum);
    write(piece, begin + kState + at);
  }
  head.checksum = head.computed();
  const auto bytes = std::as_bytes(std::span(&head, 1));
  write(bytes.subspan(sizeof(head.magic)), begin + sizeof(head.magic));
  write(bytes.first(sizeof(head.magic)), begin);  // one aligned word, which makes the slot whole
  newest_ = slot;
  saves_ = head.save;
}

// Whether the head is whole and of this shard.
bool ShardFile::read_head(std::size_t slot, Head& head) {
  if (!read(std::as_writable_bytes(std::span(&head, 1)), begin_of(slot))) return false;
  const std::string text = options_.encode() + name_;
  return head.whole() && text == std::string_view(head.text, std::size_t{head.options_length} + head.name_length);
}

bool ShardFile::read_body(std::size_t slot, const Head& head, ShardImage& image) const {
  image.version = head.version;
  image.steps = head.steps;
  image.lost = head.lost;
  image.workers.resize(head.workers);
  const auto workers = std::as_writable_bytes(std::span(image.workers));
  if (!read(workers, begin_of(slot) + kPage)) return false;
  std::uint32_t checksum = crc32c(workers);
  for (std::size_t at = 0; at < image.state.size(); at += kPiece) {
    const auto piece = image.state.subspan(at, std::min(kPiece, image.state.size() - at));
    if (!read(piece, begin_of(slot) + kState + at)) return false;
    checksum = crc32c(piece, checksum);
  }
  return checksum == head.body_checksum;
}

std::string ShardFile::read(ShardImage& image) {
  std::array<Head, 2> heads{};
  std::array<bool, 2> whole{};
  for (const std::size_t slot : {0, 1}) whole[slot] = read_head(slot, heads[slot]);
  const std::size_t first = whole[1] && (!whole[0] || heads[1].save > heads[0].save) ? 1 : 0;
  for (const std::size_t slot : {first, 1 - first}) {
    if (!whole[slot] || !read_body(slot, heads[slot], image)) {
      whole[slot] = false;
      continue;
    }
    newest_ = slot;
    saves_ = heads[slot].save;
    const Head& other = heads[1 - slot];
    if (whole[1 - slot] || (other.magic == kUnfinished && saves_ == 1)) return {};  // it was never written
    return "shard file " + path_ + ": " +
           (other.magic == kUnfinished ? "the last image was not finished" : "an image is damaged") +
           "; the other one is used, of version " + std::to_string(image.version);
  }
  throw Error(ErrorKind::kCorrupt, "shard file " + path_ + " has no slot that is whole");
}

}  // namespace headrace
