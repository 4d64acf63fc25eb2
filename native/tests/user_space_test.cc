// Addresses without the kernel where their library is not installed, or can't be used.
#include "io/user_space.h"

#include <doctest/doctest.h>

#include <string>

#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

std::string refusal(const std::string& address) {
  std::string what;
  CHECK(kind_of([&] { Client(to(address)); }, &what) == ErrorKind::kInvalid);
  CHECK_MESSAGE(what.find("'" + address + "'") != std::string::npos, what);
  return what;
}

const std::string kMemif = "dpdk:memif,socket=/nowhere,ip=10.9.0.1/24";

}  // namespace

TEST_CASE("without its library, an address says which one is missing and what builds it") {
  set_user_space_library("/no/such/library.so");
  const auto what = refusal(kMemif);
  CHECK_MESSAGE(what.find("/no/such/library.so") != std::string::npos, what);
  CHECK_MESSAGE(what.find("make bypass") != std::string::npos, what);
}

TEST_CASE("a library of another version is not used") {
  set_user_space_library("libm.so.6");
  const auto what = refusal(kMemif);
  CHECK_MESSAGE(what.find("another version") != std::string::npos, what);
}

TEST_CASE("ports that only the server has are reached through the kernel") {
  for (const std::string address : {"dpdk:af_packet,interface=eth1,ip=10.9.0.1/24", "dpdk:pci,device=0", "dpdk:"}) {
    const auto what = refusal(address);
    CHECK_MESSAGE(what.find("tcp://IP:PORT") != std::string::npos, what);
  }
}

TEST_CASE("only the polling server listens without the kernel") {
  Server server;
  Loop loop(server);
  std::string what;
  CHECK(kind_of([&] { loop.listen(kMemif); }, &what) == ErrorKind::kInvalid);
  CHECK_MESSAGE(what.find("headrace serve") != std::string::npos, what);
}
