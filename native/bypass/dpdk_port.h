// A port of DPDK: one queue in each direction, frames in the buffers of its pool.
//
// Received frames lie in the pool as long as the TCP stack holds them. Once that is half of the pool, later ones are
// copied out of it, so that a connection that is not read cannot stop the others.
//
// Threading: one thread, as stack.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bypass/dpdk.h"
#include "bypass/port.h"
#include "bypass/port_address.h"

struct rte_mbuf;
struct rte_mempool;

namespace headrace::bypass {

class DpdkPort : public Port {
 public:
  static std::size_t megabytes(PortAddress::Kind kind);  // of memory, at most

  struct Failure {  // thrown where a call of DPDK fails
    const char* step;
    int code;
  };

  // Throws Failure. `index` is different for each port of the process.
  DpdkPort(const PortAddress& address, Dpdk::End end, unsigned link, unsigned index);
  ~DpdkPort() override;
  DpdkPort(const DpdkPort&) = delete;
  DpdkPort& operator=(const DpdkPort&) = delete;

  MacAddress mac() const override;
  std::size_t receive(std::span<pbuf*, kBurst> frames) override;
  bool send(const pbuf& frame) override;
  void flush() override;
  bool connected() override;

 private:
  struct Received;  // the stack's header of a received frame, in front of its bytes

  // A virtual device that is removed with its owner; for a card, only its name.
  class Device {
   public:
    Device(const PortAddress& address, Dpdk::End end, unsigned link, unsigned index);
    ~Device();
    std::uint16_t id() const { return id_; }

   private:
    std::string name_;
    bool virtual_;
    std::uint16_t id_ = 0;
  };
  struct FreePool {
    void operator()(rte_mempool* pool) const;
  };

  static std::unique_ptr<rte_mempool, FreePool> take_pool(const PortAddress& address, unsigned index);
  void configure(std::uint16_t mtu, std::uint16_t descriptors);
  static pbuf* copy(rte_mbuf* frame);
  std::size_t receive_burst(std::span<rte_mbuf*, kBurst> arrived);
  pbuf* wrap(rte_mbuf* frame);
  static void release(pbuf* part);

  const bool joins_processes_;
  bool connected_;  // when connected() was asked last
  const std::size_t most_wrapped_;
  const std::size_t most_held_;  // frames that wait for room in the device
  std::unique_ptr<rte_mempool, FreePool> pool_;
  Device device_;
  std::size_t wrapped_ = 0;      // buffers of the pool that the stack holds
  std::vector<rte_mbuf*> held_;  // to be sent
};

}  // namespace headrace::bypass
