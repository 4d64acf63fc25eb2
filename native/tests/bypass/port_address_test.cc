#include "bypass/port_address.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

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
           "dpdk:memif,socket=/run/a,ip=10.9.0.1/24,port=7447,mtu=9000,links=8",
           "dpdk:vhost,socket=/run/a,ip=10.9.0.1/24,port=7447,mtu=9000,links=8",
           "dpdk:af_packet,interface=eth1,ip=10.9.0.1/24,port=7447,mtu=1500",
           "dpdk:af_xdp,interface=eth1,ip=10.9.0.1/24,port=7447,mtu=1500",
           "dpdk:pci,device=0000:03:00.0,ip=10.9.0.1/24,port=7447,mtu=1500",
       }) {
    CHECK(PortAddress::parse(text).text() == text);
    CHECK(PortAddress::parse(text.substr(0, text.find(",port="))).text() == text);
  }
}

TEST_CASE("each link of a memif or vhost address is a network of four") {
  const auto memif = PortAddress::parse("dpdk:memif,socket=/run/a,ip=10.9.0.5/24,links=3");
  CHECK(memif.links == 3);
  CHECK(memif.server_subnet(0).ip == 0x0a090005);
  CHECK(memif.client_subnet(0).ip == 0x0a090006);
  CHECK(memif.server_subnet(2).ip == 0x0a09000d);
  CHECK(memif.client_subnet(2).prefix_bits == 30);
  CHECK(memif.place_of(2) == "/run/a");
  CHECK(memif.sockets() == std::vector<std::string>{"/run/a"});
  const auto vhost = PortAddress::parse("dpdk:vhost,socket=/run/a,ip=10.9.0.1/24,links=2");
  CHECK(vhost.sockets() == std::vector<std::string>{"/run/a", "/run/a.1"});
  const auto card = PortAddress::parse("dpdk:pci,device=0000:03:00.0,ip=10.9.0.7/24");
  CHECK(card.links == 1);
  CHECK(card.server_subnet(0).ip == 0x0a090007);
  CHECK(card.server_subnet(0).prefix_bits == 24);
  CHECK(card.sockets().empty());
}

TEST_CASE("there are as many links as the network has room for") {
  const auto small = [](const std::string& rest) {
    return PortAddress::parse("dpdk:memif,socket=/a,ip=" + rest).links;
  };
  CHECK(small("10.9.0.1/30") == 1);
  CHECK(small("10.9.0.1/28") == 4);
  CHECK(small("10.9.0.249/24") == 2);
  CHECK(small("10.9.0.1/24,links=32") == 32);
}

TEST_CASE("a mistake is named with what is required") {
  for (const auto& [text, said] : {
           std::pair{"42", "dpdk: required at the beginning"},
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
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.2/24", "multiple of four plus one"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/24,links=0", "from 1 to 32 required"},
           std::pair{"dpdk:vhost,socket=/a,ip=10.9.0.1/24,links=33", "from 1 to 32 required"},
           std::pair{"dpdk:memif,socket=/a,ip=10.9.0.1/29,links=3", "from 1 to 2 required"},
           std::pair{"dpdk:af_packet,interface=e,ip=10.9.0.1/24,links=2", "field 'links'"},
           std::pair{"dpdk:af_packet,interface=a-name-that-is-too-long,ip=10.9.0.1/24", "at most 15 bytes"},
       }) {
    CAPTURE(text);
    CHECK(refusal(text).find(said) != std::string::npos);
    CHECK(refusal(text).find(text) != std::string::npos);
  }
}
