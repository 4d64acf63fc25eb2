// Shared memory as Linux has it: sealed memfds, and descriptors that travel over Unix sockets.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/file_descriptor.h"
#include "wire/shared_region.h"

namespace headrace {

// A region of a memfd that neither side can shrink or grow any more: a peer can't make the other fault. kSystem.
std::shared_ptr<SharedRegion> make_shared_region(std::uint64_t bytes);

// The peer's side: maps a descriptor that was received, for reading alone unless `writable`. kMalformed where it is
// shorter than `bytes` or not sealed.
class MappedRegion {
 public:
  MappedRegion(FileDescriptor descriptor, std::uint64_t bytes, bool writable = false);
  ~MappedRegion();
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  std::byte* data() { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_;
};

// Control data of a message with one descriptor; outlives the call that sends or receives the message.
class DescriptorSlot {
 public:
  void send_with(msghdr& message, int descriptor);
  void receive_with(msghdr& message);
  // Empty where none came. kMalformed where more than one came; all are closed then. kSystem where this process has
  // too many open files for it.
  FileDescriptor received(msghdr& message) const;

 private:
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control_ = {};
};

}  // namespace headrace
