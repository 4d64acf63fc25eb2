#include "io/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/quiet_thread.h"

namespace headrace {
namespace {

constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::uint64_t kPieceBytes = 16 << 20;

[[noreturn]] void throw_system(std::uint64_t bytes) {
  throw Error(ErrorKind::kSystem,
              "shared memory of " + std::to_string(bytes) + " bytes can't be allocated: " + std::strerror(errno));
}

std::byte* map(int descriptor, std::uint64_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) throw_system(bytes);
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // advice: where shared memory has no huge pages, small ones serve
  return static_cast<std::byte*>(memory);
}

// Piece by piece, since calls of other threads that map memory wait for each.
void unmap_pieces(std::byte* memory, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kPieceBytes) ::munmap(memory + at, std::min(kPieceBytes, bytes - at));
}

// A large region in a thread that ends with it: a gigabyte of small pages takes a tenth of a second, for which a
// server's other connections would wait.
void unmap(std::byte* memory, std::uint64_t bytes) {
  if (bytes > kPieceBytes) {
    try {
      return start_quiet_thread([memory, bytes] { unmap_pieces(memory, bytes); }).detach();
    } catch (const std::system_error&) {
      // No thread: then here.
    }
  }
  unmap_pieces(memory, bytes);
}

class MemfdRegion : public SharedRegion {
 public:
  explicit MemfdRegion(std::uint64_t bytes)
      : descriptor_(::memfd_create("headrace", MFD_CLOEXEC | MFD_ALLOW_SEALING)), size_(bytes) {
    if (!descriptor_ || ::ftruncate(descriptor_.get(), static_cast<off_t>(bytes)) != 0 ||
        ::fcntl(descriptor_.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
      throw_system(bytes);
    }
    data_ = map(descriptor_.get(), bytes, PROT_READ | PROT_WRITE);
  }
  ~MemfdRegion() override { unmap(data_, size_); }
  MemfdRegion(const MemfdRegion&) = delete;
  MemfdRegion& operator=(const MemfdRegion&) = delete;

  std::span<std::byte> bytes() override { return {data_, size_}; }
  int descriptor() const override { return descriptor_.get(); }

 private:
  const FileDescriptor descriptor_;
  const std::uint64_t size_;
  std::byte* data_ = nullptr;
};

}  // namespace

std::shared_ptr<SharedRegion> make_shared_region(std::uint64_t bytes) { return std::make_shared<MemfdRegion>(bytes); }

MappedRegion::MappedRegion(FileDescriptor descriptor, std::uint64_t bytes, bool writable) : bytes_(bytes) {
  const int seals = ::fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    throw Error(ErrorKind::kMalformed, "shared memory: a memfd sealed against shrinking and growing required");
  }
  struct stat file = {};
  if (::fstat(descriptor.get(), &file) != 0) throw_system(bytes);
  if (bytes == 0 || static_cast<std::uint64_t>(file.st_size) < bytes) {
    throw Error(ErrorKind::kMalformed, "shared memory of " + std::to_string(file.st_size) +
                                           " bytes: " + std::to_string(bytes) + " required, and at least 1");
  }
  data_ = map(descriptor.get(), bytes, PROT_READ | (writable ? PROT_WRITE : 0));
}

MappedRegion::~MappedRegion() { ::munmap(data_, bytes_); }

void DescriptorSlot::send_with(msghdr& message, int descriptor) {
  receive_with(message);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(descriptor));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
}

void DescriptorSlot::receive_with(msghdr& message) {
  message.msg_control = control_.data();
  message.msg_controllen = control_.size();
}

FileDescriptor DescriptorSlot::received(msghdr& message) const {
  FileDescriptor found;
  const bool truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  bool more = false;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    for (std::size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof(descriptor));
      more = more || found;
      found = FileDescriptor(descriptor);
    }
  }
  if (truncated && !found) {  // there is room for one, so the process can't have it
    throw Error(ErrorKind::kSystem,
                std::string("the descriptor that came with a message can't be received: ") + std::strerror(EMFILE));
  }
  if (truncated || more) {
    throw Error(ErrorKind::kMalformed, "descriptors received with a message: at most one required");
  }
  return found;
}

}  // namespace headrace
