// The file in a server's data directory that lists the claims to keep for owners that may reconnect. It is replaced
// atomically and has a checksum.
//
// Threading: not thread-safe; the owner (Claims) calls from one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace {

struct KeptClaim {
  std::string name;
  std::uint64_t owner = 0;
  std::uint64_t run = 0;                // shared by all starts of a run; 0: none
  std::chrono::milliseconds keep = {};  // after the owner's connection is lost

  bool operator==(const KeptClaim&) const = default;
};

class ClaimFile {
 public:
  enum State { kWhole, kMissing, kDamaged };
  struct Content {
    State state;
    std::vector<KeptClaim> claims;
  };

  explicit ClaimFile(const std::string& directory) : path_(directory + "/claims") {}

  const std::string& path() const { return path_; }
  Content read() const;                                 // throws kSystem where it is there and can't be read
  void write(std::span<const KeptClaim> claims) const;  // throws kSystem; the old file then stays

 private:
  [[noreturn]] void fail(const char* action) const;

  const std::string path_;
};

}  // namespace headrace
