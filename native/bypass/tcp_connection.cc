#include "bypass/tcp_connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace headrace::bypass {
namespace {

// Of one connection in the stack's queues, which are linear lists: two for each segment. More makes long queues slow,
// which costs more than a larger window gains.
constexpr u16_t kMaxQueuedBuffers = 256;
constexpr std::size_t kMaxWriteBytes = 60 << 10;  // the stack counts a write's bytes in 16 bits
constexpr std::size_t kMaxTakenBytes = 0xffff;    // and those whose space it may announce to the peer again

// A segment that waits keeps its frame, which is about 100 bytes larger. Small ones are copied together instead.
constexpr u16_t kSmallBytes = 512;
constexpr u16_t kCollectedBytes = 2048;

constexpr u32_t kKeepIdleMilliseconds = 15'000;  // of silence, before the peer is asked whether it is there
constexpr u32_t kKeepIntervalMilliseconds = 5'000;
constexpr u32_t kKeepProbes = 3;

std::string name_of(const tcp_pcb& pcb) {
  char text[IP4ADDR_STRLEN_MAX];
  return std::string(ip4addr_ntoa_r(&pcb.remote_ip, text, sizeof(text))) + ":" + std::to_string(pcb.remote_port);
}

}  // namespace

std::unique_ptr<TcpConnection> TcpConnection::connect(Interface& interface, std::uint32_t ip, std::uint16_t port) {
  tcp_pcb* const pcb = tcp_new();
  if (pcb == nullptr) throw Error(ErrorKind::kSystem, "the TCP stack has no memory for another connection");
  auto connection = std::make_unique<TcpConnection>(pcb);
  tcp_bind_netif(pcb, &interface.handle());
  const ip_addr_t server = {lwip_htonl(ip)};
  const auto ignore = [](void*, tcp_pcb*, err_t) -> err_t { return ERR_OK; };
  if (tcp_bind(pcb, netif_ip_addr4(&interface.handle()), 0) != ERR_OK ||
      tcp_connect(pcb, &server, port, ignore) != ERR_OK) {
    throw Error(ErrorKind::kSystem, "the TCP stack can't connect: it has no memory, or no port is free");
  }
  return connection;
}

TcpConnection::TcpConnection(tcp_pcb* pcb) : pcb_(pcb), peer_(name_of(*pcb)) {
  tcp_arg(pcb_, this);
  tcp_recv(pcb_, &TcpConnection::on_received);
  tcp_sent(pcb_, &TcpConnection::on_sent);
  tcp_err(pcb_, &TcpConnection::on_failed);
  tcp_nagle_disable(pcb_);
  ip_set_option(pcb_, SOF_KEEPALIVE);
  pcb_->keep_idle = kKeepIdleMilliseconds;
  pcb_->keep_intvl = kKeepIntervalMilliseconds;
  pcb_->keep_cnt = kKeepProbes;
}

TcpConnection::~TcpConnection() {
  if (pcb_ != nullptr && in_flight_ == 0) {
    tcp_pcb* const pcb = std::exchange(pcb_, nullptr);
    tcp_arg(pcb, nullptr);
    tcp_recv(pcb, nullptr);
    tcp_sent(pcb, nullptr);
    tcp_err(pcb, nullptr);
    if (tcp_close(pcb) != ERR_OK) tcp_abort(pcb);
  }
  abort();
  if (received_ != nullptr) pbuf_free(received_);
}

void TcpConnection::abort() {
  if (pcb_ == nullptr) return;
  tcp_pcb* const pcb = std::exchange(pcb_, nullptr);
  tcp_err(pcb, nullptr);
  tcp_abort(pcb);
}

void TcpConnection::note() {
  if (!std::exchange(noted_, true) && ready_) ready_();
}

err_t TcpConnection::on_received(void* self, tcp_pcb*, pbuf* bytes, err_t) {
  auto& connection = *static_cast<TcpConnection*>(self);
  if (bytes == nullptr) {
    connection.ended_ = true;
  }
  while (bytes != nullptr) connection.append(std::exchange(bytes, std::exchange(bytes->next, nullptr)));
  connection.note();
  return ERR_OK;
}

void TcpConnection::append(pbuf* part) {
  const bool collected = received_ != nullptr && part->len < kSmallBytes;
  if (collected && room_ < part->len) {
    if (pbuf* const empty = pbuf_alloc(PBUF_RAW, kCollectedBytes, PBUF_RAM)) {
      empty->len = 0;
      link(empty, kCollectedBytes);
    }
  }
  if (!collected || room_ < part->len) {
    link(part, 0);
    return;
  }
  std::memcpy(static_cast<std::byte*>(last_received_->payload) + last_received_->len, part->payload, part->len);
  last_received_->len = static_cast<u16_t>(last_received_->len + part->len);
  room_ = static_cast<u16_t>(room_ - part->len);
  pbuf_free(part);
}

void TcpConnection::link(pbuf* last, u16_t room) {
  (received_ == nullptr ? received_ : last_received_->next) = last;
  last_received_ = last;
  room_ = room;
}

err_t TcpConnection::on_sent(void* self, tcp_pcb*, u16_t count) {
  auto& connection = *static_cast<TcpConnection*>(self);
  connection.acknowledged_ += count;  // of whole segments, none of which the stack reads again
  connection.note();
  return ERR_OK;
}

void TcpConnection::on_failed(void* self, err_t) {
  auto& connection = *static_cast<TcpConnection*>(self);
  connection.pcb_ = nullptr;  // the stack has freed it
  connection.note();
}

std::size_t TcpConnection::read(std::span<std::byte> space) {
  std::size_t moved = 0;
  while (received_ != nullptr && moved < space.size()) {
    const std::size_t count = std::min<std::size_t>(received_->len, space.size() - moved);
    std::memcpy(space.data() + moved, received_->payload, count);
    moved += count;
    if (count < received_->len) {
      pbuf_remove_header(received_, count);
      break;
    }
    pbuf* const rest = received_->next;
    if (rest != nullptr) pbuf_ref(rest);
    pbuf_free(received_);
    received_ = rest;
  }
  for (std::size_t left = moved; pcb_ != nullptr && left > 0;) {
    const std::size_t count = std::min(left, kMaxTakenBytes);
    tcp_recved(pcb_, static_cast<u16_t>(count));
    left -= count;
  }
  return moved;
}

std::size_t TcpConnection::write(std::span<const std::byte> bytes) {
  const std::size_t taken = take(bytes, 0);
  in_flight_ += taken;
  return taken;
}

std::size_t TcpConnection::take(std::span<const std::byte> bytes, std::uint8_t flags) {
  std::size_t taken = 0;
  while (pcb_ != nullptr && taken < bytes.size() && tcp_sndqueuelen(pcb_) < kMaxQueuedBuffers) {
    const std::size_t count = std::min<std::size_t>({bytes.size() - taken, tcp_sndbuf(pcb_), kMaxWriteBytes});
    if (count == 0 || tcp_write(pcb_, bytes.data() + taken, static_cast<u16_t>(count), flags) != ERR_OK) break;
    taken += count;
  }
  return taken;
}

std::size_t TcpConnection::copy(std::span<const std::byte> bytes) { return take(bytes, TCP_WRITE_FLAG_COPY); }

bool TcpConnection::push() { return pcb_ == nullptr || tcp_output(pcb_) == ERR_OK; }

std::size_t TcpConnection::take_acknowledged() {
  const std::size_t count = std::exchange(acknowledged_, 0);
  in_flight_ -= count;
  return count;
}

}  // namespace headrace::bypass
