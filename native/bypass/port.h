// Where Ethernet frames come from and go to: a device, or a test.
//
// Threading: one thread, as stack.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

struct pbuf;

namespace headrace::bypass {

using MacAddress = std::array<std::uint8_t, 6>;

class Port {
 public:
  static constexpr std::size_t kBurst = 32;

  virtual ~Port() = default;
  virtual MacAddress mac() const = 0;
  // Frames that have arrived, the oldest first; returns their number. The caller frees them.
  virtual std::size_t receive(std::span<pbuf*, kBurst> frames) = 0;
  // Copies the frame, to be sent at flush() or before. False, and it is not sent: there is no room at the moment.
  virtual bool send(const pbuf& frame) = 0;
  virtual void flush() = 0;
  virtual bool connected() { return true; }  // asks whether the other end is there
};

}  // namespace headrace::bypass
