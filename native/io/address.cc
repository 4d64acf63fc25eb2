#include "io/address.h"

#include <sys/un.h>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::string_view kScheme = "unix:";
constexpr std::size_t kMaxNameBytes = sizeof(sockaddr_un::sun_path) - 1;  // a path's end, an abstract name's beginning

}  // namespace

Address Address::parse(std::string_view text) {
  const std::string quoted = "address '" + std::string(text) + "'";
  if (!text.starts_with(kScheme)) {
    throw Error(ErrorKind::kInvalid, quoted + ": required unix:PATH or unix:@NAME; other transports are not served");
  }
  auto name = text.substr(kScheme.size());
  Address address;
  if (name.starts_with('@')) {
    address.kind = Kind::kUnixAbstract;
    name.remove_prefix(1);
  } else if (name.empty()) {
    throw Error(ErrorKind::kInvalid, quoted + ": a path or @NAME is required after unix:");
  }
  if (name.size() > kMaxNameBytes || name.find('\0') != std::string_view::npos) {
    throw Error(ErrorKind::kInvalid,
                quoted + ": at most " + std::to_string(kMaxNameBytes) + " bytes without zeros; give a shorter path");
  }
  address.name = name;
  return address;
}

std::string Address::text() const { return std::string(kScheme) + (kind == Kind::kUnixAbstract ? "@" : "") + name; }

}  // namespace headrace
