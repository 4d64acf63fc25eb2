// Unix stream sockets: what only Linux has of them (abstract names, the peer's user, modes before bind) is here.
#pragma once

#include <sys/stat.h>

#include <string>

#include "io/address.h"
#include "io/file_descriptor.h"

namespace headrace {

// A listening socket. A socket file has mode 0600 and goes with the listener; on an abstract name only
// processes of the same user are accepted.
class UnixListener {
 public:
  // Replaces a socket file that nobody listens on. kSystem: the path is not a socket, is listened on, or can't be had.
  explicit UnixListener(Address address);
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int descriptor() const { return socket_.get(); }
  const Address& address() const { return address_; }  // with the name that was picked
  // A non-blocking connection; empty where none waits or the peer is another user's. errno says which: EAGAIN, EACCES,
  // or what accept() set.
  FileDescriptor accept();

 private:
  Address address_;
  FileDescriptor socket_;
  struct stat file_ = {};  // of the socket file, so that only our own is removed
};

// Connects, or returns empty with errno where nobody listens (ENOENT, ECONNREFUSED, EAGAIN). Other errors throw
// kSystem; an abstract name held by another user throws kRefused. The descriptor is non-blocking.
FileDescriptor connect_unix(const Address& address);

}  // namespace headrace
