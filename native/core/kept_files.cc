#include "core/kept_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace headrace {
namespace {

constexpr const char* kOrphan = ".orphan";  // then nothing, or .2, .3 and so on

bool exists(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0;
}

}  // namespace

std::optional<std::pair<std::uint64_t, std::string_view>> parse_kept_file(std::string_view stem,
                                                                          std::string_view file) {
  if (!file.starts_with(stem)) return std::nullopt;
  file.remove_prefix(stem.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), number);
  const bool canonical = error == std::errc() && file.front() != '0' && number < (std::uint64_t{1} << 62);
  if (!canonical) return std::nullopt;
  return std::pair(number, file.substr(static_cast<std::size_t>(end - file.data())));
}

std::string set_aside(const std::string& path, const std::string& why) {
  std::string aside = path + kOrphan;
  for (unsigned i = 2; exists(aside); ++i) aside = path + kOrphan + "." + std::to_string(i);
  if (std::rename(path.c_str(), aside.c_str()) != 0) {
    return path + " " + why + ", and can't be set aside: " + std::strerror(errno) + "; it is left there";
  }
  return path + " " + why + "; it is set aside as " + aside + ", and nothing in it was changed";
}

}  // namespace headrace
