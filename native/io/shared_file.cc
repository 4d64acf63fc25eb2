#include "io/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace headrace {

SharedFile::SharedFile(std::uint64_t bytes)
    : made_(make_shared_region(bytes)),
      path_("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(made_->descriptor())),
      memory_(made_->bytes()) {}

SharedFile::SharedFile(const std::string& path) : path_(path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));  // a pipe doesn't hold it up
  if (!descriptor) {
    const int error = errno;
    const std::string why = "shared memory \"" + path + "\" can't be opened: " + std::strerror(error);
    if (error == ENOENT) throw Error(ErrorKind::kClosed, why + "; the process that made it is gone");
    throw Error(ErrorKind::kSystem, why);
  }
  struct stat file = {};
  if (::fstat(descriptor.get(), &file) != 0) file.st_size = 0;
  const auto bytes = static_cast<std::uint64_t>(file.st_size);
  try {
    opened_ = std::make_unique<MappedRegion>(std::move(descriptor), bytes, true);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kMalformed) throw;
    throw Error(ErrorKind::kInvalid, "\"" + path + "\" is not shared by its maker: " + error.what());
  }
  memory_ = {opened_->data(), bytes};
}

}  // namespace headrace
