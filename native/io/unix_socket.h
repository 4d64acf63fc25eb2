// Unix stream sockets: including what only Linux has (abstract names, the peer's user, modes before bind).
#pragma once

#include <sys/stat.h>

#include "io/listener.h"

namespace headrace {

// A listening socket. A socket file has mode 0600 and is removed with the listener; on an abstract name only
// processes of the same user are accepted.
class UnixListener : public Listener {
 public:
  // Replaces a socket file that refuses connections: its server is gone. Of several servers that start on a path at
  // once, in any process, one gets it. kSystem: the path is not a socket, is listened on, may be listened on (it is
  // another user's), its folder is locked for 10 s or can't be locked, or it can't be had.
  explicit UnixListener(Address address);
  ~UnixListener() override;
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int descriptor() const override { return socket_.get(); }
  const Address& address() const override { return address_; }
  bool local() const override { return true; }
  Accepted accept() override;

 private:
  Address address_;
  FileDescriptor socket_;
  struct stat file_ = {};  // of the socket file, so that only our own is removed
};

// As connect_to(); there is nothing to wait for. The server of an abstract name must be of the same user, that of a
// path of the same user or root; else kRefused.
FileDescriptor connect_unix(const Address& address);

}  // namespace headrace
