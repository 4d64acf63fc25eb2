#include "bypass/link_claim.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "bypass/socket_file.h"
#include "core/error.h"
#include "io/transport.h"

namespace headrace::bypass {
namespace {

[[noreturn]] void refuse(ErrorKind kind, const PortAddress& address, const std::string& what) {
  throw Error(kind, "address '" + address.text() + "': " + what);
}

FileDescriptor opened(const PortAddress& address) {
  const auto path = lock_path_of(address.place);
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file) return file;
  if (errno == ENOENT) throw ConnectionLost(path + ": " + std::strerror(errno));
  refuse(ErrorKind::kSystem, address, path + ": " + std::strerror(errno));
}

// The server's address, which it has written there.
PortAddress read_address(const FileDescriptor& file, const PortAddress& address) {
  std::array<char, 512> text;
  const auto count = ::pread(file.get(), text.data(), text.size(), 0);
  if (count <= 0) throw ConnectionLost(address.place + ": its server is starting");
  try {
    return PortAddress::parse({text.data(), static_cast<std::size_t>(count)});
  } catch (const Error& error) {
    throw ConnectionLost(lock_path_of(address.place) + ": " + error.what());
  }
}

bool try_lock(const FileDescriptor& file, unsigned byte) {
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = byte;
  range.l_len = 1;
  return ::fcntl(file.get(), F_OFD_SETLK, &range) == 0;
}

}  // namespace

LinkClaim::LinkClaim(const PortAddress& address) : file_(opened(address)) {
  auto served = read_address(file_, address);
  const unsigned links = served.links;
  served.links = address.links;
  if (served.text() != address.text()) {
    refuse(ErrorKind::kInvalid, address, "the server there has address '" + served.text() + "', which is required");
  }
  while (!try_lock(file_, link_)) {
    if (++link_ < links) continue;
    refuse(ErrorKind::kSystem, address,
           "other processes have all " + std::to_string(links) +
               " links; pass a larger links=N in the address of `headrace serve`");
  }
  if (!is_at(file_, lock_path_of(address.place))) throw ConnectionLost(address.place + ": its server is starting");
}

}  // namespace headrace::bypass
