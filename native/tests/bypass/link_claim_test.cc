#include "bypass/link_claim.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "bypass/socket_file.h"
#include "core_fixtures.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::fixtures;

namespace {

PortAddress address_in(const ScratchFolder& folder, const std::string& rest) {
  return PortAddress::parse("dpdk:memif,socket=" + folder.file("port") + ",ip=10.9.0.1/24" + rest);
}

}  // namespace

TEST_CASE("clients have the server's links one by one, and a link is free once its client is gone") {
  const ScratchFolder folder;
  const auto served = address_in(folder, ",links=2");
  const auto address = address_in(folder, "");  // the server's says how many links there are
  const SocketFile server(served.sockets(), served.text());
  std::optional<LinkClaim> first(address);
  const LinkClaim second(address);
  CHECK(first->link() == 0);
  CHECK(second.link() == 1);
  check_error(ErrorKind::kSystem, "all 2 links", [&] { LinkClaim{address}; });
  first.reset();
  CHECK(LinkClaim(address).link() == 0);
}

TEST_CASE("a client without a server, or with another server's address") {
  const ScratchFolder folder;
  const auto address = address_in(folder, "");
  check_error(ErrorKind::kClosed, "port.lock", [&] { LinkClaim{address}; });
  const SocketFile server(address.sockets(), address.text());
  check_error(ErrorKind::kInvalid, "port=7447", [&] { LinkClaim{address_in(folder, ",port=80")}; });
}
