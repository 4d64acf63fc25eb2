// A connected socket as a transport: Unix or TCP.
//
// Threading: as transport.h.
#pragma once

#include "io/transport.h"

namespace headrace {

class SocketTransport : public Transport {
 public:
  explicit SocketTransport(FileDescriptor socket);

  Transfer send(std::span<iovec> parts) override;
  Transfer receive(std::span<iovec> parts) override;  // throws as DescriptorSlot::received()
  bool has_input() override;
  void await_reply(Clock::time_point now) override;
  Event wait(Waker& waker, std::chrono::milliseconds longest) override;
  FileDescriptor take_descriptor() override { return std::move(descriptor_); }
  void shut() override;

 private:
  const FileDescriptor socket_;
  FileDescriptor descriptor_;
  bool awake_ = false;  // receive() does not block
  Clock::time_point asleep_ = {};
};

}  // namespace headrace
