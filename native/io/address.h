// Where a server is reached: "unix:PATH" (a socket file) or "unix:@NAME" (abstract: nothing in the file system).
#pragma once

#include <string>
#include <string_view>

namespace headrace {

struct Address {
  enum class Kind { kUnixPath, kUnixAbstract };

  Kind kind = Kind::kUnixPath;
  std::string name;  // path, or name without the @; an empty abstract name: the server picks a free one

  // Throws kInvalid for another scheme, an empty path, or a name longer than the system's socket addresses.
  static Address parse(std::string_view text);
  std::string text() const;
};

}  // namespace headrace
