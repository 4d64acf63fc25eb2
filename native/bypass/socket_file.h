// The paths of Unix sockets that a library is about to create and does not clean up.
//
// A lock file next to the first, PATH.lock, says whether its server is alive, and contains a text for clients. To ask
// the socket itself is no way: a connection that ends at once stops a process with a memif port of DPDK 22.11.
//
// Threading: one thread.
#pragma once

#include <string>
#include <vector>

#include "io/file_descriptor.h"

namespace headrace::bypass {

std::string lock_path_of(const std::string& path);
// Whether the file is still the one that its path names: its last owner may have removed it meanwhile.
bool is_at(const FileDescriptor& file, const std::string& path);

class SocketFile {
 public:
  // Removes sockets whose server is gone. Throws kSystem: a path is no socket, another server has them, or no file can
  // be created next to them. At least one path.
  SocketFile(std::vector<std::string> paths, const std::string& text);
  ~SocketFile();  // removes all files
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;

 private:
  const std::vector<std::string> paths_;
  const std::string lock_path_;
  const FileDescriptor lock_;
};

}  // namespace headrace::bypass
