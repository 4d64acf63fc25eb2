// libheadrace-bypass-client.so: what io/user_space.h loads. A process has one DPDK environment and one TCP stack; both
// stay until it ends.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bypass/client_stack.h"
#include "bypass/dpdk.h"
#include "bypass/link_claim.h"
#include "bypass/port_address.h"
#include "io/user_space.h"

namespace headrace::bypass {
namespace {

constexpr std::size_t kMostServers = 8;  // at a time; memory that is not used is not taken

class DpdkPorts : public ClientPorts {
 public:
  Link open(const PortAddress& address) override {
    auto claim = std::make_shared<LinkClaim>(address);
    if (!dpdk_) dpdk_.emplace(std::vector(kMostServers, address_of_one_link(address)), nowhere_);
    const unsigned link = claim->link();
    try {
      auto port = dpdk_->open(address, Dpdk::End::kClient, link);
      return {std::move(claim), std::move(port), address.client_subnet(link), address.server_subnet(link).ip};
    } catch (const Error& error) {
      throw ConnectionLost(error.what());  // the server is starting, or gone
    }
  }

 private:
  static PortAddress address_of_one_link(PortAddress address) {
    address.links = 1;
    return address;
  }

  std::FILE* const nowhere_ = std::fopen("/dev/null", "we");  // that a server is gone is no error yet
  std::optional<Dpdk> dpdk_;
};

class Library : public UserSpaceTcp {
 public:
  // What the interrupt throws goes through.
  Answer connect(const std::string& address, std::chrono::milliseconds timeout, const Interrupt& interrupt) override {
    try {
      return {.transport = stack_.connect(PortAddress::parse(address), timeout, interrupt), .error = {}, .message = {}};
    } catch (const ConnectionLost& error) {
      return {.transport = {}, .error = {}, .message = error.what()};
    } catch (const Error& error) {
      return {.transport = {}, .error = error.kind(), .message = error.what()};
    }
  }

 private:
  ClientStack stack_{std::make_unique<DpdkPorts>()};
};

}  // namespace
}  // namespace headrace::bypass

extern "C" __attribute__((visibility("default"))) headrace::UserSpaceTcp* headrace_user_space_tcp_1() {
  static auto* const only = new headrace::bypass::Library();  // no thread of it must see it end before the process
  return only;
}
