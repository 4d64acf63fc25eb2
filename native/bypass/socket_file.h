// The path of a Unix socket that a library is about to create and does not clean up.
//
// Threading: one thread.
#pragma once

#include <string>

namespace headrace::bypass {

class SocketFile {
 public:
  // Removes a socket whose server is gone; `type`: SOCK_STREAM or SOCK_SEQPACKET. Throws kSystem: the path is no
  // socket, or a server listens there.
  SocketFile(std::string path, int type);
  ~SocketFile();  // removes it
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
};

}  // namespace headrace::bypass
