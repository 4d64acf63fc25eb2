// The first bytes of a file in memory, shared with the file.
//
// The kernel raises SIGBUS when it can't read or store a page: the disk fails or is full, or the file was cut short.
// The process then ends with kExitCode and one line on stderr that names the file. It can't continue, because the
// instruction that needs the page can't be completed. Any other SIGBUS is passed to the handler that was installed
// before the first mapping was made.
//
// Threading: mappings may be made and destroyed in any thread.
#pragma once

#include <cstddef>
#include <string>

namespace headrace {

class FileMapping {
 public:
  static constexpr int kExitCode = 2;  // that of every storage error

  // `name` is what messages call the file: what it is, and its path. Throws kSystem.
  FileMapping(int descriptor, std::size_t bytes, const std::string& name);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::byte* data() const { return data_; }
  bool flush() const;  // to the disk; false, with errno set, if that fails

 private:
  struct Watched;  // what the signal handler knows of a mapping
  class Watch;

  std::size_t bytes_;
  std::byte* data_;
  Watched* watched_;
};

}  // namespace headrace
