#include "io/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/entropy.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr int kBacklog = 1024;
constexpr int kSocketBufferBytes = 4 << 20;  // asked for; the system may give less
constexpr int kNameAttempts = 8;
constexpr auto kLockWait = std::chrono::seconds(10);
constexpr auto kLockPause = std::chrono::milliseconds(5);

[[noreturn]] void throw_system(const Address& address, const std::string& what) {
  throw Error(ErrorKind::kSystem, "address '" + address.text() + "': " + what);
}

struct SocketAddress {
  sockaddr_un value = {};
  socklen_t size = 0;
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&value); }
};

SocketAddress socket_address(const Address& address) {
  SocketAddress result;
  result.value.sun_family = AF_UNIX;
  const bool abstract = address.kind == Address::Kind::kUnixAbstract;
  std::memcpy(result.value.sun_path + (abstract ? 1 : 0), address.name.data(), address.name.size());
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.name.size());
  return result;
}

FileDescriptor make_socket(const Address& address) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_system(address, std::strerror(errno));
  return socket;
}

void enlarge_buffers(int descriptor) {
  ::setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
  ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &kSocketBufferBytes, sizeof(kSocketBufferBytes));
}

std::optional<ucred> peer_of(int descriptor) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

bool same_user(const std::optional<ucred>& peer) { return peer && peer->uid == ::geteuid(); }
bool same_user_or_root(const std::optional<ucred>& peer) { return same_user(peer) || (peer && peer->uid == 0); }

// Lock of the folder of a socket file, held from the search for a stale file until the new socket listens: otherwise
// one of two servers that start at once could take the other's new file for a stale one.
class FolderLock {
 public:
  explicit FolderLock(const Address& address) {
    const auto folder = std::filesystem::path(address.name).parent_path();
    folder_ = FileDescriptor(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder_) throw_system(address, std::string("its folder can't be opened: ") + std::strerror(errno));
    const auto deadline = std::chrono::steady_clock::now() + kLockWait;
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) {
        throw_system(address, std::string("its folder can't be locked (") + std::strerror(errno) +
                                  "): choose a folder of a local disk");
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        throw_system(address, "another process has locked its folder for " + std::to_string(kLockWait.count()) +
                                  " s: choose another folder");
      }
      std::this_thread::sleep_for(kLockPause);
    }
  }
  ~FolderLock() { ::flock(folder_.get(), LOCK_UN); }  // a child that was forked meanwhile has the descriptor, too
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  FileDescriptor folder_;
};

// Why it can't be connected to; 0 where it can.
int probe(const Address& address) {
  const auto socket = make_socket(address);
  const auto target = socket_address(address);
  return ::connect(socket.get(), target.pointer(), target.size) == 0 ? 0 : errno;
}

void remove_stale_file(const Address& address) {
  struct stat file;
  if (::lstat(address.name.c_str(), &file) != 0) return;
  if (!S_ISSOCK(file.st_mode)) throw_system(address, "the path is there and is not a socket; it is left as it is");
  const int error = probe(address);
  if (error == 0 || error == EAGAIN) throw_system(address, "a server listens there already");
  if (error != ECONNREFUSED && error != ENOENT) {
    throw_system(address, "a socket is there already, and whether a server listens on it can't be found out (" +
                              std::string(std::strerror(error)) + "); it is left as it is: choose another path");
  }
  ::unlink(address.name.c_str());
}

bool bind_to(const FileDescriptor& socket, const Address& address) {
  const auto target = socket_address(address);
  return ::bind(socket.get(), target.pointer(), target.size) == 0;
}

}  // namespace

UnixListener::UnixListener(Address address) : address_(std::move(address)), socket_(make_socket(address_)) {
  const bool file = address_.kind == Address::Kind::kUnixPath;
  const bool pick_name = !file && address_.name.empty();
  std::optional<FolderLock> lock;
  if (file) {
    lock.emplace(address_);
    remove_stale_file(address_);
    ::fchmod(socket_.get(), 0600);  // before bind: the file is never there with wider rights
  }
  int attempts = pick_name ? kNameAttempts : 1;
  bool bound = false;
  while (!bound && attempts-- > 0) {
    if (pick_name) address_.name = "headrace-" + std::to_string(draw_entropy());
    bound = bind_to(socket_, address_);
  }
  if (!bound) throw_system(address_, std::strerror(errno));
  if (file) ::lstat(address_.name.c_str(), &file_);
  if (::listen(socket_.get(), kBacklog) != 0) throw_system(address_, std::strerror(errno));
}

UnixListener::~UnixListener() {
  if (address_.kind != Address::Kind::kUnixPath) return;
  struct stat now;
  if (::lstat(address_.name.c_str(), &now) == 0 && now.st_ino == file_.st_ino && now.st_dev == file_.st_dev) {
    ::unlink(address_.name.c_str());
  }
}

Accepted UnixListener::accept() {
  FileDescriptor connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection) return {};
  const auto peer = peer_of(connection.get());
  if (address_.kind == Address::Kind::kUnixAbstract && !same_user(peer)) {
    connection = {};
    errno = EACCES;
    return {};
  }
  enlarge_buffers(connection.get());
  return {std::move(connection), "unix pid " + std::to_string(peer ? peer->pid : 0)};
}

FileDescriptor connect_unix(const Address& address) {
  auto socket = make_socket(address);
  const auto target = socket_address(address);
  if (::connect(socket.get(), target.pointer(), target.size) != 0) {
    const int error = errno;
    if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN) throw_system(address, std::strerror(error));
    socket = {};
    errno = error;
    return socket;
  }
  const auto peer = peer_of(socket.get());
  if (address.kind == Address::Kind::kUnixAbstract ? !same_user(peer) : !same_user_or_root(peer)) {
    throw Error(ErrorKind::kRefused, "address '" + address.text() + "': its server belongs to another user");
  }
  enlarge_buffers(socket.get());
  return socket;
}

}  // namespace headrace
