// The file below a persistent arena: one page of header, then the ring's bytes, all mapped.
//
// Threading: none of its own. A lock on the file keeps other processes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/signature.h"

namespace headrace {

class ArenaFile {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  // Creates or opens; throws as Arena's constructor.
  ArenaFile(const Signature& signature, std::size_t capacity_bytes, const std::string& path);
  ~ArenaFile();
  ArenaFile(const ArenaFile&) = delete;
  ArenaFile& operator=(const ArenaFile&) = delete;

  std::byte* ring();
  // Offset of the oldest chunk in the ring, or kNone. One aligned store, so it is never torn.
  std::uint64_t oldest() const;
  void set_oldest(std::uint64_t offset);
  void flush() const;  // everything is on the disk; throws kSystem

 private:
  struct Header;
  void create(const std::string& signature);
  void check(const std::string& signature) const;
  [[noreturn]] void fail(const std::string& action, int error) const;
  Header& header() const;

  std::string path_;
  std::size_t capacity_;
  int descriptor_ = -1;
  std::byte* memory_ = nullptr;
};

}  // namespace headrace
