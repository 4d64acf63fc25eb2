// One TCP connection of the user-space stack.
//
// The stack calls back while it handles a frame or a timer. These callbacks only take notes and call `ready`, once
// until acknowledge_events(): what follows happens outside the stack, so that no exception passes through it and no
// connection is freed under it.
//
// Threading: one thread, as stack.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "bypass/interface.h"

extern "C" {
#include <lwip/tcp.h>
}

namespace headrace::bypass {

class TcpConnection {
 public:
  // Begins to connect. Throws kSystem: the stack has no memory for it.
  static std::unique_ptr<TcpConnection> connect(Interface& interface, std::uint32_t ip, std::uint16_t port);

  using Ready = std::function<void()>;  // must not throw

  static constexpr std::size_t kWindowBytes = TCP_WND;  // that a peer may send before read() takes it

  explicit TcpConnection(tcp_pcb* pcb);  // of a connection that is established or will be; takes it over
  // Closes the connection if the peer has acknowledged everything; otherwise resets it, since the bytes that were
  // written may be gone with their owner.
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  void on_ready(Ready ready) { ready_ = std::move(ready); }
  void abort();  // resets the connection; lost() from then on

  bool established() const { return pcb_ != nullptr && pcb_->state >= ESTABLISHED; }
  bool lost() const { return pcb_ == nullptr; }  // reset, or the peer is silent for too long
  bool ended() const { return ended_; }          // the peer sends nothing after what has_input() says
  std::string peer() const { return peer_; }     // "10.0.0.2:53142"

  void acknowledge_events() { noted_ = false; }  // before looking at the rest: `ready` is called again from now on
  bool has_input() const { return received_ != nullptr; }
  std::size_t read(std::span<std::byte> space);  // returns how many bytes it moved there

  // Sends bytes from where they lie. They must stay there until take_acknowledged() has counted them or the connection
  // is destroyed. Returns how many it took, none of which is sent before push().
  std::size_t write(std::span<const std::byte> bytes);
  // The same with copies, which need not stay. A connection sends either by write() or by copy().
  std::size_t copy(std::span<const std::byte> bytes);
  bool push();                                          // false: the stack has no memory at the moment; call it again
  std::size_t in_flight() const { return in_flight_; }  // written, and not yet counted by take_acknowledged()
  std::size_t take_acknowledged();

 private:
  static err_t on_received(void* self, tcp_pcb* pcb, pbuf* bytes, err_t error);
  static err_t on_sent(void* self, tcp_pcb* pcb, u16_t count);
  static void on_failed(void* self, err_t error);
  std::size_t take(std::span<const std::byte> bytes, std::uint8_t flags);
  void append(pbuf* part);
  void link(pbuf* last, u16_t room);
  void note();

  tcp_pcb* pcb_;
  const std::string peer_;
  Ready ready_;
  pbuf* received_ = nullptr;  // a chain, of whose total length 16 bits are not enough
  pbuf* last_received_ = nullptr;
  u16_t room_ = 0;  // behind the bytes of the last one
  std::size_t in_flight_ = 0;
  std::size_t acknowledged_ = 0;  // of these
  bool noted_ = false;
  bool ended_ = false;
};

}  // namespace headrace::bypass
