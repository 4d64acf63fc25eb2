// Errors of the data plane. Each kind maps to one exception of headrace.errors and to one status on the wire.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace headrace {

enum class ErrorKind : std::uint8_t {
  kInvalid = 1,   // an argument or a setting that can never work
  kRefused = 2,   // data that does not fit: a chunk against a signature, a frame against a limit
  kNotFound = 3,  // no table of that name
  kClosed = 4,    // the table, server or connection is closed
  kCorrupt = 5,   // a file or a frame with invalid bytes
  kSystem = 6,    // an error of the operating system: no space, no such file
};

// The message names the field, the value, what is required and what happens otherwise.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace headrace
