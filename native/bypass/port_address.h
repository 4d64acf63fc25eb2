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
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "bypass/interface.h"

namespace headrace::bypass {

struct PortAddress {
  enum class Kind : std::uint8_t { kMemif, kVhost, kAfPacket, kAfXdp, kPci };

  static constexpr std::string_view kScheme = "dpdk:";

  Kind kind = Kind::kMemif;
  std::string place;  // path, name of the interface, or PCI address
  Subnet subnet;
  std::uint16_t tcp_port = 7447;
  std::uint16_t mtu = 1500;

  // Throws kInvalid, naming the address, the field and what is required.
  static PortAddress parse(std::string_view text);
  std::string text() const;  // with every field
  bool has_socket_file() const { return kind == Kind::kMemif || kind == Kind::kVhost; }
  bool local() const { return has_socket_file(); }  // only this machine reaches it
};

}  // namespace headrace::bypass
