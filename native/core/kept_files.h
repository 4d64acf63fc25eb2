// Names of the files in a server's data directory: STEM-N.ENDING. Numbers rise and are never used again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace headrace {

// N and the ending of `<stem>N<ending>`.
std::optional<std::pair<std::uint64_t, std::string_view>> parse_kept_file(std::string_view stem, std::string_view file);

// Renames a file that can't be used to `<path>.orphan`, or .orphan.2 and so on. Returns what happened, for the user.
std::string set_aside(const std::string& path, const std::string& why);

}  // namespace headrace
