// The link of a server's memif or vhost address that this process has. Its byte in the server's lock file is locked as
// long, so that it is free again when the process is gone, however it ends.
//
// Threading: one thread.
#pragma once

#include "bypass/port_address.h"
#include "io/file_descriptor.h"

namespace headrace::bypass {

class LinkClaim {
 public:
  // The first link that is free. Throws ConnectionLost: no server is there; kSystem: all links are taken, or the lock
  // file can't be opened; kInvalid: the server there has another address.
  explicit LinkClaim(const PortAddress& address);

  unsigned link() const { return link_; }

 private:
  FileDescriptor file_;
  unsigned link_ = 0;
};

}  // namespace headrace::bypass
