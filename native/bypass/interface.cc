#include "bypass/interface.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bypass/stack.h"
#include "core/error.h"

extern "C" {
#include <lwip/etharp.h>
#include <lwip/priv/tcp_priv.h>
#include <netif/ethernet.h>
}

namespace headrace::bypass {
namespace {

ip4_addr_t address_of(std::uint32_t value) { return {lwip_htonl(value)}; }

std::uint32_t mask_of(std::uint8_t prefix_bits) {
  return prefix_bits == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix_bits);
}

}  // namespace

Interface::Interface(std::unique_ptr<Port> port, Subnet subnet, std::uint16_t mtu) : port_(std::move(port)), mtu_(mtu) {
  start_stack();
  const auto ip = address_of(subnet.ip);
  const auto mask = address_of(mask_of(subnet.prefix_bits));
  if (netif_add(&netif_, &ip, &mask, nullptr, this, &Interface::initialize, ethernet_input) == nullptr) {
    throw Error(ErrorKind::kSystem, "the TCP stack has no memory for another interface");
  }
  netif_set_link_up(&netif_);
  netif_set_up(&netif_);  // and announces the address
  flush();
}

Interface::~Interface() { netif_remove(&netif_); }

err_t Interface::initialize(netif* handle) {
  const auto& self = *static_cast<Interface*>(handle->state);
  handle->name[0] = 'h';
  handle->name[1] = 'r';
  const MacAddress mac = self.port_->mac();
  static_assert(sizeof(handle->hwaddr) == sizeof(mac));
  handle->hwaddr_len = ETH_HWADDR_LEN;
  std::copy(mac.begin(), mac.end(), handle->hwaddr);
  handle->mtu = self.mtu_;
  handle->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
  handle->output = etharp_output;
  handle->linkoutput = &Interface::send;
  return ERR_OK;
}

err_t Interface::send(netif* handle, pbuf* frame) {
  // ERR_MEM: the stack keeps the segment.
  return static_cast<Interface*>(handle->state)->port_->send(*frame) ? ERR_OK : ERR_MEM;
}

bool Interface::poll() {
  std::array<pbuf*, Port::kBurst> frames;
  const std::size_t count = port_->receive(frames);
  for (std::size_t i = 0; i < count; ++i) {
    if (netif_.input(frames[i], &netif_) != ERR_OK) pbuf_free(frames[i]);
  }
  return count > 0;
}

bool Interface::watch() {
  const bool connected = port_->connected();
  if (!std::exchange(was_connected_, connected) || connected) return false;
  const auto index = netif_get_index(&netif_);
  for (tcp_pcb* pcb = tcp_active_pcbs; pcb != nullptr;) {
    if (pcb->netif_idx == index) {
      tcp_abort(pcb);
      pcb = tcp_active_pcbs;  // the list has changed
    } else {
      pcb = pcb->next;
    }
  }
  return true;
}

bool Interface::is_sending() const {
  const auto index = netif_get_index(&netif_);
  for (const tcp_pcb* pcb = tcp_active_pcbs; pcb != nullptr; pcb = pcb->next) {
    const bool closed = pcb->state == FIN_WAIT_1 || pcb->state == CLOSING || pcb->state == LAST_ACK;
    if (pcb->netif_idx == index && closed) return true;
  }
  return false;
}

}  // namespace headrace::bypass
