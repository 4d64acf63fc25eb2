#include "bypass/port_address.h"

#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "core/error.h"

namespace headrace::bypass {
namespace {

using Kind = PortAddress::Kind;

struct KindTraits {
  Kind kind;
  std::string_view name;
  std::string_view place_key;
  std::size_t max_place_bytes;
  std::uint16_t max_mtu;
  std::uint16_t default_mtu;
};

constexpr std::uint16_t kMinMtu = 576;
constexpr std::uint16_t kMaxMtu = 9000;
constexpr std::uint32_t kLinkAddresses = 4;  // of a link's own network: itself, the server, the client, all
constexpr std::uint8_t kLinkBits = 30;
constexpr std::uint32_t kDefaultLinks = 8;
constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1 - 3;  // ".31" may follow
constexpr std::size_t kMaxInterfaceBytes = 15;                                // IFNAMSIZ

constexpr std::array<KindTraits, 5> kKinds = {{
    {Kind::kMemif, "memif", "socket", kMaxPathBytes, kMaxMtu, 9000},
    {Kind::kVhost, "vhost", "socket", kMaxPathBytes, kMaxMtu, 9000},
    {Kind::kAfPacket, "af_packet", "interface", kMaxInterfaceBytes, kMaxMtu, 1500},
    {Kind::kAfXdp, "af_xdp", "interface", kMaxInterfaceBytes, 1500, 1500},  // a frame must fit a page
    {Kind::kPci, "pci", "device", 32, kMaxMtu, 1500},
}};

const KindTraits& traits_of(Kind kind) { return *std::ranges::find(kKinds, kind, &KindTraits::kind); }

using Fields = std::map<std::string_view, std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PortAddress parse() {
    if (!text_.starts_with(PortAddress::kScheme)) refuse("dpdk: required at the beginning");
    auto rest = text_.substr(PortAddress::kScheme.size());
    const auto kind = next(rest);
    const auto found = std::ranges::find(kKinds, kind, &KindTraits::name);
    if (found == kKinds.end()) {
      refuse("kind '" + std::string(kind) + "': memif, vhost, af_packet, af_xdp or pci required");
    }
    auto fields = split(rest);
    PortAddress address{.kind = found->kind, .mtu = found->default_mtu};
    address.place = place(fields, *found);
    address.subnet = subnet(fields);
    address.tcp_port = number(fields, "port", 1, 65535).value_or(address.tcp_port);
    address.mtu = number(fields, "mtu", kMinMtu, found->max_mtu).value_or(address.mtu);
    if (address.has_socket_file()) address.links = links(fields, address.subnet);
    if (!fields.empty()) {
      refuse("field '" + std::string(fields.begin()->first) + "': " + std::string(found->place_key) +
             (address.has_socket_file() ? ", ip, port, mtu or links required" : ", ip, port or mtu required"));
    }
    return address;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kInvalid, "address '" + std::string(text_) + "': " + what);
  }

  static std::string_view next(std::string_view& rest) {
    const auto comma = rest.find(',');
    const auto word = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    return word;
  }

  Fields split(std::string_view rest) const {
    Fields fields;
    while (!rest.empty()) {
      const auto word = next(rest);
      const auto equals = word.find('=');
      if (equals == std::string_view::npos) refuse(std::string(word) + ": FIELD=VALUE required");
      if (!fields.emplace(word.substr(0, equals), word.substr(equals + 1)).second) {
        refuse("field '" + std::string(word.substr(0, equals)) + "': it is there twice");
      }
    }
    return fields;
  }

  static std::optional<std::string_view> take(Fields& fields, std::string_view key) {
    const auto node = fields.extract(key);
    return node ? std::optional(node.mapped()) : std::nullopt;
  }

  std::string place(Fields& fields, const KindTraits& traits) const {
    const auto value = take(fields, traits.place_key).value_or("");
    if (value.empty()) refuse(std::string(traits.place_key) + "=... required");
    if (value.size() > traits.max_place_bytes) {
      refuse(std::string(traits.place_key) + ": at most " + std::to_string(traits.max_place_bytes) + " bytes");
    }
    return std::string(value);
  }

  std::optional<std::uint16_t> number(Fields& fields, std::string_view key, std::uint32_t least,
                                      std::uint32_t most) const {
    const auto value = take(fields, key);
    if (!value) return std::nullopt;
    const auto read = parse_number(*value);
    if (!read || *read < least || *read > most) {
      refuse(std::string(key) + " '" + std::string(*value) + "': a number from " + std::to_string(least) + " to " +
             std::to_string(most) + " required");
    }
    return static_cast<std::uint16_t>(*read);
  }

  unsigned links(Fields& fields, const Subnet& subnet) const {
    if (subnet.ip % kLinkAddresses != 1) {
      refuse(
          "ip: the last number must be 1, 5, 9 or another multiple of four plus one, as each link has four addresses");
    }
    const std::uint32_t size = std::uint32_t{1} << (32 - subnet.prefix_bits);
    const std::uint32_t room = (size - subnet.ip % size + 1) / kLinkAddresses;
    const auto most = std::min<std::uint32_t>(room, PortAddress::kMostLinks);
    return number(fields, "links", 1, most).value_or(static_cast<std::uint16_t>(std::min(most, kDefaultLinks)));
  }

  static std::optional<std::uint32_t> parse_number(std::string_view digits) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  }

  Subnet subnet(Fields& fields) const {
    const auto value = take(fields, "ip").value_or("");
    const auto slash = value.find('/');
    const auto ip = parse_ip(value.substr(0, slash));
    const auto bits = slash == std::string_view::npos ? std::nullopt : parse_number(value.substr(slash + 1));
    if (!ip || !bits || *bits < 8 || *bits > 30) {
      refuse("ip '" + std::string(value) + "': an IPv4 address and a prefix of 8 to 30 bits required, as 10.9.0.1/24");
    }
    return {*ip, static_cast<std::uint8_t>(*bits)};
  }

  static std::optional<std::uint32_t> parse_ip(std::string_view text) {
    std::uint32_t ip = 0;
    for (int part = 0; part < 4; ++part) {
      const auto dot = text.find('.');
      if ((dot == std::string_view::npos) != (part == 3)) return std::nullopt;
      const auto value = parse_number(text.substr(0, dot));
      if (!value || *value > 255) return std::nullopt;
      ip = ip << 8 | *value;
      text = dot == std::string_view::npos ? std::string_view() : text.substr(dot + 1);
    }
    return ip;
  }

  const std::string_view text_;
};

}  // namespace

PortAddress PortAddress::parse(std::string_view text) { return Parser(text).parse(); }

std::string PortAddress::text() const {
  std::string ip;
  for (int shift = 24; shift >= 0; shift -= 8) {
    ip += std::to_string(subnet.ip >> shift & 0xff) + (shift > 0 ? "." : "");
  }
  const auto& traits = traits_of(kind);
  return std::string(kScheme) + std::string(traits.name) + "," + std::string(traits.place_key) + "=" + place +
         ",ip=" + ip + "/" + std::to_string(subnet.prefix_bits) + ",port=" + std::to_string(tcp_port) +
         ",mtu=" + std::to_string(mtu) + (has_socket_file() ? ",links=" + std::to_string(links) : "");
}

std::string PortAddress::place_of(unsigned link) const {
  return kind == Kind::kVhost && link > 0 ? place + "." + std::to_string(link) : place;
}

Subnet PortAddress::server_subnet(unsigned link) const {
  return has_socket_file() ? Subnet{subnet.ip + kLinkAddresses * link, kLinkBits} : subnet;
}

Subnet PortAddress::client_subnet(unsigned link) const { return {server_subnet(link).ip + 1, kLinkBits}; }

std::vector<std::string> PortAddress::sockets() const {
  std::vector<std::string> paths;
  if (!has_socket_file()) return paths;
  const unsigned count = kind == Kind::kVhost ? links : 1;
  for (unsigned link = 0; link < count; ++link) paths.push_back(place_of(link));
  return paths;
}

}  // namespace headrace::bypass
