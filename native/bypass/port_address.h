// Where a polling server is reached: dpdk:KIND,KEY=VALUE,...
//
//   dpdk:memif,socket=PATH,ip=10.9.0.1/24                  processes of this machine: shared memory by memif
//   dpdk:vhost,socket=PATH,ip=10.9.0.1/24                  processes of this machine: virtio-user connects here
//   dpdk:af_packet,interface=NAME,ip=10.9.0.1/24           a network interface of the kernel
//   dpdk:af_xdp,interface=NAME,ip=10.9.0.1/24              the same through XDP sockets
//   dpdk:pci,device=0000:03:00.0,ip=10.9.0.1/24            a network card that is bound to vfio-pci
//
// with port=N (default 7447) and mtu=N (default 9000 for memif and vhost, 1500 otherwise). `ip` is an address that the
// kernel does not have.
//
// A memif or vhost port joins two processes. So that several reach a server, it has links=N (default 8) of them, each a
// network of four addresses: the server has ip + 4 * link there, and the client the next one. All memif ports have one
// socket; vhost has PATH, PATH.1, PATH.2 and so on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bypass/interface.h"

namespace headrace::bypass {

struct PortAddress {
  enum class Kind : std::uint8_t { kMemif, kVhost, kAfPacket, kAfXdp, kPci };

  static constexpr std::string_view kScheme = "dpdk:";
  static constexpr unsigned kMostLinks = 32;  // DPDK has as many ports

  Kind kind = Kind::kMemif;
  std::string place;  // path, name of the interface, or PCI address
  Subnet subnet;
  std::uint16_t tcp_port = 7447;
  std::uint16_t mtu = 1500;
  unsigned links = 1;  // more than 1 only of memif and vhost

  // Throws kInvalid, naming the address, the field and what is required.
  static PortAddress parse(std::string_view text);
  std::string text() const;  // with every field
  bool has_socket_file() const { return kind == Kind::kMemif || kind == Kind::kVhost; }
  bool local() const { return has_socket_file(); }  // only this machine reaches it

  // Of the link 0 .. links - 1.
  std::string place_of(unsigned link) const;
  Subnet server_subnet(unsigned link) const;
  Subnet client_subnet(unsigned link) const;  // only of memif and vhost
  std::vector<std::string> sockets() const;   // socket files of all links
};

}  // namespace headrace::bypass
