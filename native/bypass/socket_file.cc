#include "bypass/socket_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "io/file_descriptor.h"

namespace headrace::bypass {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what) {
  throw Error(ErrorKind::kSystem, "socket '" + path + "': " + what);
}

bool answers(const std::string& path, int type) {
  const FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());  // PortAddress has checked the length
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
         errno != ECONNREFUSED;
}

}  // namespace

SocketFile::SocketFile(std::string path, int type) : path_(std::move(path)) {
  struct stat file;
  if (::lstat(path_.c_str(), &file) != 0) {
    if (errno == ENOENT) return;
    refuse(path_, std::strerror(errno));
  }
  if (!S_ISSOCK(file.st_mode)) refuse(path_, "the path is taken by something that is no socket");
  if (answers(path_, type)) refuse(path_, "another server listens there");
  if (::unlink(path_.c_str()) != 0) refuse(path_, std::strerror(errno));
}

SocketFile::~SocketFile() { ::unlink(path_.c_str()); }

}  // namespace headrace::bypass
