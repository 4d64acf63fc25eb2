// Errors of the data plane. Each kind maps to one exception of headrace.errors and to one status on the wire.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace headrace {

enum class ErrorKind : std::uint8_t {
  kInvalid = 1,       // an argument or a setting that can never work
  kRefused = 2,       // what a server refuses: a name that another owner has, a limit, the memory budget, a wrong token
  kNotFound = 3,      // no table or shard of that name
  kClosed = 4,        // the table, server or connection is closed
  kMalformed = 5,     // a frame or shared memory that breaks the protocol
  kSystem = 6,        // an error of the operating system: no space, no such file
  kChunkRefused = 7,  // a chunk that does not fit its table
  kMismatch = 8,      // a file of a table with other settings
  kCorrupt = 9,       // a file or settings with invalid bytes
};
inline constexpr ErrorKind kLastErrorKind = ErrorKind::kCorrupt;

// The message names the field, the value, what is required and what happens otherwise.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace headrace
