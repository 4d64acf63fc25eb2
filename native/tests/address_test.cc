#include "io/address.h"

#include <doctest/doctest.h>

#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("addresses of Unix sockets") {
  CHECK(Address::parse("unix:/run/a").kind == Address::Kind::kUnixPath);
  CHECK(Address::parse("unix:/run/a").name == "/run/a");
  CHECK(Address::parse("unix:@a").kind == Address::Kind::kUnixAbstract);
  CHECK(Address::parse("unix:@a").name == "a");
  CHECK(Address::parse("unix:@").name.empty());
  CHECK(Address::parse("unix:@a").is_unix());
}

TEST_CASE("addresses of TCP") {
  const auto named = Address::parse("tcp://replay-0.cluster:7447");
  CHECK(named.kind == Address::Kind::kTcp);
  CHECK(named.name == "replay-0.cluster");
  CHECK(named.port == 7447);
  CHECK_FALSE(named.is_unix());
  const auto six = Address::parse("tcp://[fe80::1%eth0]:0");
  CHECK(six.name == "fe80::1%eth0");
  CHECK(six.port == 0);
}

TEST_CASE("addresses without the kernel are taken as they are") {
  const auto address = Address::parse("dpdk:memif,socket=/run/a,ip=10.9.0.1/24");
  CHECK(address.kind == Address::Kind::kUserSpace);
  CHECK(address.name == "memif,socket=/run/a,ip=10.9.0.1/24");
  CHECK_FALSE(address.is_unix());
}

TEST_CASE("an address round-trips through text") {
  for (const std::string text : {"unix:/run/a", "unix:@a", "unix:@", "tcp://127.0.0.1:65535", "tcp://[::1]:7447",
                                 "tcp://localhost:0", "dpdk:memif,socket=/run/a"}) {
    CHECK(Address::parse(text).text() == text);
  }
}

TEST_CASE("invalid addresses are refused in a message that quotes them and states what is required") {
  const auto refused = [](const std::string& text, const std::string& part) {
    std::string what;
    CHECK(kind_of([&] { Address::parse(text); }, &what) == ErrorKind::kInvalid);
    CHECK_MESSAGE(what.find("'" + text + "'") != std::string::npos, what);
    CHECK_MESSAGE(what.find(part) != std::string::npos, what);
  };
  refused("", "tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND");
  refused("/run/a", "tcp://HOST:PORT, unix:PATH, unix:@NAME or dpdk:KIND");
  refused("unix:", "a path or @NAME");
  refused("unix:/" + std::string(200, 'x'), "give a shorter path");
  refused("tcp://host", "the port is missing");
  refused("tcp://host:", "0 to 65535");
  refused("tcp://host:65536", "0 to 65535");
  refused("tcp://host:7447/", "0 to 65535");
  refused("tcp://host:-1", "0 to 65535");
  refused("tcp://:7447", "a host's name");
  refused("tcp://a b:7447", "a host's name");
  refused("tcp://" + std::string(300, 'x') + ":7447", "a host's name");
  refused("tcp://::1:7447", "brackets");
  refused("tcp://[localhost]:7447", "brackets");
}
