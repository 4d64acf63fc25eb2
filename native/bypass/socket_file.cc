#include "bypass/socket_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace headrace::bypass {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what) {
  throw Error(ErrorKind::kSystem, "socket '" + path + "': " + what);
}

// Whether the file is still the one that its path names: its last owner may have removed it meanwhile.
bool is_at(const FileDescriptor& file, const std::string& path) {
  struct stat opened;
  struct stat named;
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

FileDescriptor locked(const std::string& lock_path, const std::string& path) {
  for (;;) {
    FileDescriptor file(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) refuse(path, std::strerror(errno));
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      refuse(path, errno == EWOULDBLOCK ? "another server listens there" : std::strerror(errno));
    }
    if (is_at(file, lock_path)) return file;
  }
}

}  // namespace

SocketFile::SocketFile(std::string path)
    : path_(std::move(path)), lock_path_(path_ + ".lock"), lock_(locked(lock_path_, path_)) {
  struct stat file;
  const bool there = ::lstat(path_.c_str(), &file) == 0;
  if (there && !S_ISSOCK(file.st_mode)) {
    ::unlink(lock_path_.c_str());
    refuse(path_, "the path is taken by something that is no socket");
  }
  if (there) ::unlink(path_.c_str());
}

SocketFile::~SocketFile() {
  ::unlink(path_.c_str());
  ::unlink(lock_path_.c_str());
}

}  // namespace headrace::bypass
