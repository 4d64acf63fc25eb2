// TCP sockets: names resolved, peers that vanish noticed.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "io/listener.h"

namespace headrace {

// As listen_on() and connect_to(). An address of the name that is not this machine's (or of a family that it lacks) is
// skipped as long as another works.
std::vector<std::unique_ptr<Listener>> listen_tcp(const Address& address);
FileDescriptor connect_tcp(const Address& address, std::chrono::milliseconds timeout, const Interrupt& interrupt);

}  // namespace headrace
