#include "bypass/port_address.h"

#include <doctest/doctest.h>

#include <string>

#include "core/error.h"

using namespace headrace;
using namespace headrace::bypass;

namespace {

std::string refusal(const std::string& text) {
  try {
    PortAddress::parse(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInvalid);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("an address names port, own IP, TCP port and MTU") {
  const auto address = PortAddress::parse("dpdk:af_packet,interface=eth1,ip=10.0.3.4/16,port=80,mtu=9000");
  CHECK(address.kind == PortAddress::Kind::kAfPacket);
  CHECK(address.place == "eth1");
  CHECK(address.subnet.ip == 0x0a000304);
  CHECK(address.subnet.prefix_bits == 16);
  CHECK(address.tcp_port == 80);
  CHECK(address.mtu == 9000);
  CHECK_FALSE(address.local());
}

TEST_CASE("the text of an address has every field, and is that address") {
  for (const std::string text : {
           "dpdk:memif,socket=/run/a,ip=10.9.0.1/24,port=7447,mtu=9000",
           "dpdk:vhost,socket=/run/a,ip=10.9.0.1/24,port=7447,mtu=9000",
           "dpdk:af_packet,interface=eth1,ip=10.9.0.1/24,port=7447,mtu=1500",
           "dpdk:af_xdp,interface=eth1,ip=10.9.0.1/24,port=7447,mtu=1500",
           "dpdk:pci,device=0000:03:00.0,ip=10.9.0.1/24,port=7447,mtu=1500",
       }) {
    CHECK(PortAddress::parse(text).text() == text);
    CHECK(PortAddress::parse(text.substr(0, text.find(",port="))).text() == text);
  }
}

TEST_CASE("a mistake is named with what is required") {
  for (const auto& [text, said] : {
           std::pair{"dpdk:", "memif, vhost"},
           std::pair{"dpdk:infiniband,ip=10.9.0.1/24", "memif, vhost"},
           std::pair{"dpdk:memif,ip=10.9.0.1/24", "socket=... required"},
           std::pair{"dpdk:memif,socket=,ip=10.9.0.1/24", "socket=... required"},
           std::pair{"dpdk:memif,socket=/a", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0/24", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.256/24", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1.2/24", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/31", "prefix of 8 to 30 bits required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,port=0", "from 1 to 65535 required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,port=7447x", "from 1 to 65535 required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,mtu=9001", "from 576 to 9000 required"},
           std::pair{"dpdk:af_xdp,interface=e,ip=10.9.0.1/24,mtu=9000", "from 576 to 1500 required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,ip=10.9.0.2/24", "it is there twice"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,interface=e", "field 'interface'"},
           std::pair{"dpdk:memif,/a", "FIELD=VALUE required"},
           std::pair{"dpdk:af_packet,interface=a-name-that-is-too-long,ip=10.9.0.1/24", "at most 15 bytes"},
       }) {
    CAPTURE(text);
    CHECK(refusal(text).find(said) != std::string::npos);
    CHECK(refusal(text).find(text) != std::string::npos);
  }
}
