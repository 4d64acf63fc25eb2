#include "io/address.h"

#include <sys/un.h>

#include <charconv>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::string_view kUnixScheme = "unix:";
constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kUserSpaceScheme = "dpdk:";
constexpr std::size_t kMaxNameBytes = sizeof(sockaddr_un::sun_path) - 1;  // a path's end, an abstract name's beginning
constexpr std::size_t kMaxHostBytes = 255;                                // RFC 1035, section 2.3.4

[[noreturn]] void refuse(std::string_view text, const std::string& what) {
  throw Error(ErrorKind::kInvalid, "address '" + std::string(text) + "': " + what);
}

Address parse_unix(std::string_view text) {
  auto name = text.substr(kUnixScheme.size());
  Address address;
  if (name.starts_with('@')) {
    address.kind = Address::Kind::kUnixAbstract;
    name.remove_prefix(1);
  } else if (name.empty()) {
    refuse(text, "a path or @NAME is required after unix:");
  }
  if (name.size() > kMaxNameBytes || name.find('\0') != std::string_view::npos) {
    refuse(text, "at most " + std::to_string(kMaxNameBytes) + " bytes without zeros; give a shorter path");
  }
  address.name = name;
  return address;
}

// Letters, digits and what else stands in names and in addresses ("fe80::1%eth0").
bool is_host(std::string_view text) {
  if (text.empty() || text.size() > kMaxHostBytes) return false;
  for (const char c : text) {
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!alphanumeric && std::string_view(".-_:%").find(c) == std::string_view::npos) return false;
  }
  return true;
}

Address parse_tcp(std::string_view text) {
  const auto place = text.substr(kTcpScheme.size());
  const auto colon = place.rfind(':');
  if (colon == std::string_view::npos) refuse(text, "tcp://HOST:PORT required; the port is missing");
  auto host = place.substr(0, colon);
  const auto digits = place.substr(colon + 1);

  Address address{.kind = Address::Kind::kTcp};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), address.port);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    refuse(text, "port '" + std::string(digits) + "': a number from 0 to 65535 required");
  }
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!is_host(host)) refuse(text, "a host's name or address required before the port");
  if (bracketed != (host.find(':') != std::string_view::npos)) {
    refuse(text, "brackets required around an IPv6 address, as in tcp://[::1]:7447, and around nothing else");
  }
  address.name = host;
  return address;
}

}  // namespace

Address Address::parse(std::string_view text) {
  if (text.starts_with(kUnixScheme)) return parse_unix(text);
  if (text.starts_with(kTcpScheme)) return parse_tcp(text);
  if (text.starts_with(kUserSpaceScheme)) {
    return {.kind = Address::Kind::kUserSpace, .name = std::string(text.substr(kUserSpaceScheme.size()))};
  }
  refuse(text, "required tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND,...");
}

std::string Address::text() const {
  if (kind == Kind::kUnixPath) return std::string(kUnixScheme) + name;
  if (kind == Kind::kUnixAbstract) return std::string(kUnixScheme) + "@" + name;
  if (kind == Kind::kUserSpace) return std::string(kUserSpaceScheme) + name;
  const bool brackets = name.find(':') != std::string::npos;
  return std::string(kTcpScheme) + (brackets ? "[" + name + "]" : name) + ":" + std::to_string(port);
}

}  // namespace headrace
