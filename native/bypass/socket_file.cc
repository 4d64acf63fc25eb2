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

std::string lock_path_of(const std::string& path) { return path + ".lock"; }

bool is_at(const FileDescriptor& file, const std::string& path) {
  struct stat opened;
  struct stat named;
  return ::fstat(file.get(), &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

SocketFile::SocketFile(std::vector<std::string> paths, const std::string& text)
    : paths_(std::move(paths)), lock_path_(lock_path_of(paths_[0])), lock_(locked(lock_path_, paths_[0])) {
  struct stat file;
  for (const auto& path : paths_) {
    if (::lstat(path.c_str(), &file) != 0 || S_ISSOCK(file.st_mode)) continue;
    ::unlink(lock_path_.c_str());
    refuse(path, "the path is taken by something that is no socket");
  }
  for (const auto& path : paths_) ::unlink(path.c_str());
  const bool written = ::ftruncate(lock_.get(), 0) == 0 &&
                       ::pwrite(lock_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (written) return;
  const int error = errno;
  ::unlink(lock_path_.c_str());
  refuse(lock_path_, std::strerror(error));
}

SocketFile::~SocketFile() {
  for (const auto& path : paths_) ::unlink(path.c_str());
  ::unlink(lock_path_.c_str());
}

}  // namespace headrace::bypass
