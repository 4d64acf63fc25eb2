// The path of a Unix socket that a library is about to create and does not clean up.
//
// A lock file next to it, PATH.lock, says whether its server is alive. To ask the socket itself is no way: a connection
// that ends at once stops a process with a memif port of DPDK 22.11.
//
// Threading: one thread.
#pragma once

#include <string>

#include "io/file_descriptor.h"

namespace headrace::bypass {

class SocketFile {
 public:
  // Removes a socket whose server is gone. Throws kSystem: the path is no socket, another server has it, or no file can
  // be created next to it.
  explicit SocketFile(std::string path);
  ~SocketFile();  // removes both files
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::string path_;
  const std::string lock_path_;
  const FileDescriptor lock_;
};

}  // namespace headrace::bypass
