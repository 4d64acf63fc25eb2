// The file below a persistent arena: two pages of header, then the ring's bytes, all mapped. The second page is a copy
// of the first; a damaged one is restored from the other.
//
// Threading: not thread-safe. A lock on the file keeps other processes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/file_mapping.h"
#include "core/signature.h"

namespace headrace {

class ArenaFile {
 public:
  struct Part {
    std::size_t begin, end;
  };
  static constexpr std::uint64_t kMaxKey = std::uint64_t{1} << 47;  // more than any table reaches

  // Creates or opens; throws as Arena's constructor.
  ArenaFile(const Signature& signature, std::size_t capacity_bytes, const std::string& path);
  ~ArenaFile();
  ArenaFile(const ArenaFile&) = delete;
  ArenaFile& operator=(const ArenaFile&) = delete;

  static bool was_made(const std::string& path);  // whether there is a file that begins as one whose creation finished

  // Random: the headers of stored chunks have it, and no sender of chunks knows it.
  std::uint32_t mark() const;
  std::byte* ring();
  // The parts of the ring that were ever written, as far as the file system knows (all of it where it can't tell). Ask
  // before reading: what is read of the rest counts as written.
  std::vector<Part> written() const;
  // Which keys the ring holds: [oldest_key, next_key). Each is one aligned store with its own checksum: nullopt if it
  // is damaged. Exact after the process was killed; after a power loss it may be older or newer than the ring's pages.
  std::optional<std::uint64_t> oldest_key() const;
  std::optional<std::uint64_t> next_key() const;
  void set_oldest_key(std::optional<std::uint64_t> key);
  void set_next_key(std::uint64_t key);
  void flush() const;  // everything is on the disk; throws kSystem

 private:
  struct Header;
  void create(const std::string& signature);
  void mend();
  [[noreturn]] void refuse_size(std::size_t found, std::size_t wanted) const;
  void check(const std::string& signature) const;
  [[noreturn]] void refuse_format() const;
  [[noreturn]] void fail(const std::string& action, int error) const;
  Header& header(std::size_t copy = 0) const;

  std::string path_;
  std::size_t capacity_;
  int descriptor_ = -1;
  std::optional<FileMapping> mapping_;
};

}  // namespace headrace
