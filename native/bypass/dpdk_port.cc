#include "bypass/dpdk_port.h"

#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

extern "C" {
#include <lwip/pbuf.h>
}

namespace headrace::bypass {
namespace {

using Kind = PortAddress::Kind;

// Of buffers. Half of them are for frames that the stack holds (most_wrapped_); the other half must be enough for those
// that wait to be sent, those in the rings in both directions (only virtio-user keeps some there) and DPDK's cache, so
// that there is always one for an acknowledgment.
struct Sizes {
  unsigned buffers;
  unsigned cache;
  std::uint16_t descriptors;
  std::size_t held;
  std::size_t megabytes;
};

constexpr Sizes kCard = {.buffers = 8191, .cache = 256, .descriptors = 1024, .held = 512, .megabytes = 112};
// A server has many, and connections of one process send at most a window each: 1 MiB, 115 jumbo frames.
constexpr Sizes kLink = {.buffers = 2047, .cache = 64, .descriptors = 256, .held = 256, .megabytes = 24};
static_assert(kLink.buffers / 2 > kLink.held + 2 * kLink.descriptors + 3 * kLink.cache / 2);

const Sizes& sizes_of(Kind kind) { return kind == Kind::kMemif || kind == Kind::kVhost ? kLink : kCard; }

constexpr unsigned kHeaderBytes = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
constexpr unsigned kSmallFrameBytes = 2048;
constexpr unsigned kLargeFrameBytes = 9216;
constexpr unsigned kFramesPerBlock = 4;

// Of a buffer's data; large enough for what a ring of af_packet puts around a frame, too.
unsigned frame_bytes(std::uint16_t mtu) { return mtu <= 1500 ? kSmallFrameBytes : kLargeFrameBytes; }

int check(const char* step, int code) {
  if (code < 0) throw DpdkPort::Failure{step, -code};
  return code;
}

struct DeviceSettings {
  std::string driver;
  std::string arguments;
};

DeviceSettings settings_of(const PortAddress& address, Dpdk::End end, unsigned link) {
  const bool server = end == Dpdk::End::kServer;
  const auto place = address.place_of(link);
  const auto bytes = std::to_string(frame_bytes(address.mtu));
  switch (address.kind) {
    case Kind::kMemif:
      return {"net_memif", "role=" + std::string(server ? "server" : "client,rsize=8,bsize=" + bytes) +
                               ",id=" + std::to_string(link) + ",socket-abstract=no,socket=" + place};
    case Kind::kVhost:
      if (server) return {"net_vhost", "queues=1,iface=" + place};
      return {"net_virtio_user", "queues=1,queue_size=" + std::to_string(kLink.descriptors) + ",path=" + place};
    case Kind::kAfPacket: {
      const auto block = std::to_string(kFramesPerBlock * frame_bytes(address.mtu));
      return {"net_af_packet", "qpairs=1,framesz=" + bytes + ",blocksz=" + block +
                                   ",framecnt=" + std::to_string(kCard.descriptors) + ",iface=" + place};
    }
    case Kind::kAfXdp:
      return {"net_af_xdp", "iface=" + place};
    case Kind::kPci:
      break;
  }
  return {};
}

}  // namespace

struct DpdkPort::Received {
  pbuf_custom custom;
  rte_mbuf* buffer;
  DpdkPort* port;
};

DpdkPort::Device::Device(const PortAddress& address, Dpdk::End end, unsigned link, unsigned index)
    : name_(address.place), virtual_(address.kind != Kind::kPci) {
  if (virtual_) {
    const auto settings = settings_of(address, end, link);
    const LockGuard lock(event_mutex);
    name_ = settings.driver + std::to_string(index);
    check("opening the device", rte_vdev_init(name_.c_str(), settings.arguments.c_str()));
  }
  const int found = rte_eth_dev_get_port_by_name(name_.c_str(), &id_);
  if (found == 0) return;
  if (virtual_) rte_vdev_uninit(name_.c_str());
  throw Failure{"finding the device", -found};
}

DpdkPort::Device::~Device() {
  const LockGuard lock(event_mutex);
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  if (virtual_) rte_vdev_uninit(name_.c_str());
}

std::unique_ptr<rte_mempool, DpdkPort::FreePool> DpdkPort::take_pool(const PortAddress& address, unsigned index) {
  const auto& sizes = sizes_of(address.kind);
  auto* const pool = rte_pktmbuf_pool_create(("headrace" + std::to_string(index)).c_str(), sizes.buffers, sizes.cache,
                                             RTE_ALIGN(sizeof(Received), RTE_MBUF_PRIV_ALIGN),
                                             RTE_PKTMBUF_HEADROOM + frame_bytes(address.mtu), SOCKET_ID_ANY);
  if (pool == nullptr) throw Failure{"taking memory", rte_errno};
  return std::unique_ptr<rte_mempool, FreePool>(pool);
}

void DpdkPort::FreePool::operator()(rte_mempool* pool) const { rte_mempool_free(pool); }

std::size_t DpdkPort::megabytes(Kind kind) { return sizes_of(kind).megabytes; }

DpdkPort::DpdkPort(const PortAddress& address, Dpdk::End end, unsigned link, unsigned index)
    : joins_processes_(address.has_socket_file()),
      connected_(!joins_processes_),
      most_wrapped_(sizes_of(address.kind).buffers / 2),
      most_held_(sizes_of(address.kind).held),
      pool_(take_pool(address, index)),
      device_(address, end, link, index) {
  held_.reserve(most_held_);
  configure(address.mtu, sizes_of(address.kind).descriptors);
}

DpdkPort::~DpdkPort() { rte_pktmbuf_free_bulk(held_.data(), static_cast<unsigned>(held_.size())); }

void DpdkPort::configure(std::uint16_t mtu, std::uint16_t descriptors) {
  const LockGuard lock(event_mutex);
  rte_eth_dev_info info;
  check("asking the device", rte_eth_dev_info_get(device_.id(), &info));
  rte_eth_conf settings = {};
  if (mtu > RTE_ETHER_MTU && info.max_rx_pktlen >= mtu + kHeaderBytes) settings.rxmode.mtu = mtu;
  check("configuring the device", rte_eth_dev_configure(device_.id(), 1, 1, &settings));
  std::uint16_t receive = descriptors;
  std::uint16_t send = descriptors;
  check("sizing its queues", rte_eth_dev_adjust_nb_rx_tx_desc(device_.id(), &receive, &send));
  check("making its receive queue",
        rte_eth_rx_queue_setup(device_.id(), 0, receive, SOCKET_ID_ANY, nullptr, pool_.get()));
  check("making its send queue", rte_eth_tx_queue_setup(device_.id(), 0, send, SOCKET_ID_ANY, nullptr));
  check("starting the device", rte_eth_dev_start(device_.id()));
}

bool DpdkPort::connected() {
  if (!joins_processes_) return true;
  rte_eth_link link = {};
  const LockGuard lock(event_mutex);
  connected_ = rte_eth_link_get_nowait(device_.id(), &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  return connected_;
}

MacAddress DpdkPort::mac() const {
  rte_ether_addr address = {};
  rte_eth_macaddr_get(device_.id(), &address);
  MacAddress mac;
  std::copy_n(address.addr_bytes, mac.size(), mac.begin());
  return mac;
}

std::size_t DpdkPort::receive(std::span<pbuf*, kBurst> frames) {
  std::array<rte_mbuf*, kBurst> arrived;
  const std::size_t count = receive_burst(arrived);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (rte_pktmbuf_pkt_len(arrived[i]) > std::numeric_limits<u16_t>::max()) {  // no frame that lwIP can describe
      rte_pktmbuf_free(arrived[i]);
      continue;
    }
    pbuf* const frame = wrapped_ < most_wrapped_ ? wrap(arrived[i]) : copy(arrived[i]);
    if (frame != nullptr) frames[taken++] = frame;
  }
  return taken;
}

std::size_t DpdkPort::receive_burst(std::span<rte_mbuf*, kBurst> arrived) {
  if (!connected_) return 0;
  const LockGuard lock(event_mutex);
  return rte_eth_rx_burst(device_.id(), 0, arrived.data(), kBurst);
}

pbuf* DpdkPort::wrap(rte_mbuf* frame) {
  pbuf* head = nullptr;
  while (frame != nullptr) {
    rte_mbuf* const next = std::exchange(frame->next, nullptr);
    frame->nb_segs = 1;
    auto* const received = static_cast<Received*>(rte_mbuf_to_priv(frame));
    received->custom.custom_free_function = &DpdkPort::release;
    received->buffer = frame;
    received->port = this;
    ++wrapped_;
    auto* const bytes = rte_pktmbuf_mtod(frame, void*);
    pbuf* const part =
        pbuf_alloced_custom(PBUF_RAW, frame->data_len, PBUF_REF, &received->custom, bytes, frame->data_len);
    if (head == nullptr) {
      head = part;
    } else {
      pbuf_cat(head, part);
    }
    frame = next;
  }
  return head;
}

void DpdkPort::release(pbuf* part) {
  const auto* const received = reinterpret_cast<Received*>(part);  // whose first member it is
  --received->port->wrapped_;
  rte_pktmbuf_free_seg(received->buffer);
}

// Null where there is no memory: the frame is lost, and sent again.
pbuf* DpdkPort::copy(rte_mbuf* frame) {
  pbuf* const whole = pbuf_alloc(PBUF_RAW, static_cast<u16_t>(rte_pktmbuf_pkt_len(frame)), PBUF_RAM);
  if (whole != nullptr) {
    auto* to = static_cast<std::byte*>(whole->payload);
    for (const rte_mbuf* part = frame; part != nullptr; part = part->next) {
      std::memcpy(to, rte_pktmbuf_mtod(part, const void*), part->data_len);
      to += part->data_len;
    }
  }
  rte_pktmbuf_free(frame);
  return whole;
}

bool DpdkPort::send(const pbuf& frame) {
  if (held_.size() >= kBurst) flush();
  if (held_.size() == most_held_) return false;
  rte_mbuf* const buffer = rte_pktmbuf_alloc(pool_.get());
  if (buffer == nullptr) return false;
  auto* to = reinterpret_cast<std::byte*>(rte_pktmbuf_append(buffer, frame.tot_len));
  if (to == nullptr) {  // larger than the interface's MTU
    rte_pktmbuf_free(buffer);
    return false;
  }
  std::size_t left = frame.tot_len;
  for (const pbuf* part = &frame; left > 0; part = part->next) {
    std::memcpy(to, part->payload, part->len);
    to += part->len;
    left -= part->len;
  }
  held_.push_back(buffer);
  return true;
}

void DpdkPort::flush() {
  if (held_.empty() || !connected_) return;
  const LockGuard lock(event_mutex);
  std::size_t sent = 0;
  while (sent < held_.size()) {
    const auto count = static_cast<std::uint16_t>(std::min(held_.size() - sent, kBurst));
    const auto taken = rte_eth_tx_burst(device_.id(), 0, held_.data() + sent, count);
    if (taken == 0) break;
    sent += taken;
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace headrace::bypass
