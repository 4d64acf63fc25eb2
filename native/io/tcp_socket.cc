#include "io/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBacklog = 1024;
constexpr int kPortAttempts = 8;
constexpr int kLoopbackBufferBytes =
    1 << 20;                          // measured: 29 MB batches at 1.5 times the rate of the kernel's own choice
constexpr int kKeepIdleSeconds = 15;  // of silence, before the peer's kernel is asked whether it is there
constexpr int kKeepIntervalSeconds = 5;
// Without an answer, also to these questions: their number has no effect.
constexpr int kUserTimeoutMilliseconds = 60'000;

[[noreturn]] void throw_system(const Address& address, const std::string& what) {
  throw Error(ErrorKind::kSystem, "address '" + address.text() + "': " + what);
}

struct SocketAddress {
  sockaddr_storage value = {};
  socklen_t size = sizeof(value);

  sockaddr* pointer() { return reinterpret_cast<sockaddr*>(&value); }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&value); }
  int family() const { return value.ss_family; }
  in_port_t& port() {
    return family() == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(value).sin6_port
                                : reinterpret_cast<sockaddr_in&>(value).sin_port;
  }
  // "10.0.0.2:53142", "[::1]:53142"
  std::string text() const {
    std::array<char, NI_MAXHOST> host = {};
    std::array<char, NI_MAXSERV> service = {};
    ::getnameinfo(pointer(), size, host.data(), host.size(), service.data(), service.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV);
    const bool bracketed = family() == AF_INET6;
    std::string text = bracketed ? "[" : "";
    text += host.data();
    text += bracketed ? "]:" : ":";
    text += service.data();
    return text;
  }
  bool loopback() const {
    const auto is_loopback = [](const std::uint8_t* bytes) { return bytes[0] == 127; };
    if (family() == AF_INET) {
      return is_loopback(reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in&>(value).sin_addr));
    }
    const auto& six = reinterpret_cast<const sockaddr_in6&>(value).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && is_loopback(&six.s6_addr[12]));
  }
};

std::vector<SocketAddress> resolve(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.name.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) {
    throw_system(address, error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    SocketAddress one;
    std::memcpy(&one.value, each->ai_addr, each->ai_addrlen);
    one.size = each->ai_addrlen;
    addresses.push_back(one);
  }
  return addresses;
}

void set(int descriptor, int level, int option, int value) {
  ::setsockopt(descriptor, level, option, &value, sizeof(value));
}

// For other machines the kernel sizes the buffers, growing them with the round-trip time; an explicit size would have a
// lower limit. On this machine they are kept small enough to stay in the cache.
void prepare_connection(int descriptor, const SocketAddress& peer) {
  if (peer.loopback()) {
    set(descriptor, SOL_SOCKET, SO_SNDBUF, kLoopbackBufferBytes);
    set(descriptor, SOL_SOCKET, SO_RCVBUF, kLoopbackBufferBytes);
  }
  set(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
  set(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
  set(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMilliseconds);
}

FileDescriptor make_socket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

class TcpListener : public Listener {
 public:
  TcpListener(Address address, FileDescriptor socket, bool local)
      : address_(std::move(address)), socket_(std::move(socket)), local_(local) {}

  int descriptor() const override { return socket_.get(); }
  const Address& address() const override { return address_; }
  bool local() const override { return local_; }
  Accepted accept() override {
    SocketAddress peer;
    FileDescriptor socket(::accept4(socket_.get(), peer.pointer(), &peer.size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return {};
    prepare_connection(socket.get(), peer);
    return {std::move(socket), "tcp " + peer.text()};
  }

 private:
  const Address address_;
  const FileDescriptor socket_;
  const bool local_;
};

// A listener on one address, or null with errno.
std::unique_ptr<Listener> listen_at(const Address& address, const SocketAddress& place) {
  auto socket = make_socket(place.family());
  if (!socket) return nullptr;
  set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  // An IPv6 address stands for itself, so that both wildcards can be listened on together.
  if (place.family() == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  if (::bind(socket.get(), place.pointer(), place.size) != 0 || ::listen(socket.get(), kBacklog) != 0) return nullptr;
  SocketAddress bound;
  if (::getsockname(socket.get(), bound.pointer(), &bound.size) != 0) return nullptr;
  Address named = address;
  named.port = ntohs(bound.port());
  return std::make_unique<TcpListener>(std::move(named), std::move(socket), bound.loopback());
}

// Waits for a connection that has begun: 0, or the errno that it ended with.
int finish_connecting(int descriptor, Clock::time_point deadline, const Interrupt& interrupt) {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return ETIMEDOUT;
    pollfd wanted = {.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(std::min<milliseconds>(left, kInterruptSlice).count())) > 0) break;
    if (interrupt) interrupt();
  }
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

// A connection to an unused port of this machine can meet itself, where the port is one that the system gives to those
// who connect.
bool connected_to_itself(int descriptor) {
  SocketAddress here;
  SocketAddress there;
  return ::getsockname(descriptor, here.pointer(), &here.size) == 0 &&
         ::getpeername(descriptor, there.pointer(), &there.size) == 0 && here.size == there.size &&
         std::memcmp(&here.value, &there.value, here.size) == 0;
}

}  // namespace

std::vector<std::unique_ptr<Listener>> listen_tcp(const Address& address) {
  for (int attempts = kPortAttempts;; --attempts) {
    std::vector<std::unique_ptr<Listener>> listeners;
    std::string refused;
    bool port_taken = false;  // one that was picked on the first address may be in use on the next
    for (auto place : resolve(address)) {
      if (!listeners.empty()) place.port() = htons(listeners.front()->address().port);
      auto listener = listen_at(address, place);
      if (listener) {
        listeners.push_back(std::move(listener));
        continue;
      }
      const int error = errno;
      const std::string what = place.text() + ": " + std::strerror(error);
      port_taken = error == EADDRINUSE && address.port == 0 && attempts > 0;
      if (port_taken) break;
      if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) throw_system(address, what);
      refused += (refused.empty() ? "" : "; ") + what;
    }
    if (port_taken) continue;
    if (listeners.empty()) throw_system(address, refused);
    return listeners;
  }
}

FileDescriptor connect_tcp(const Address& address, milliseconds timeout, const Interrupt& interrupt) {
  const auto places = resolve(address);
  const auto deadline = Clock::now() + timeout;
  int error = EHOSTUNREACH;
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto socket = make_socket(places[i].family());
    error = errno;
    if (!socket) continue;
    error = ::connect(socket.get(), places[i].pointer(), places[i].size) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      const auto share = (deadline - Clock::now()) / static_cast<int>(places.size() - i);
      error = finish_connecting(socket.get(), Clock::now() + share, interrupt);
    }
    if (error == 0 && connected_to_itself(socket.get())) error = ECONNREFUSED;
    if (error == 0) {
      prepare_connection(socket.get(), places[i]);
      return socket;
    }
  }
  errno = error;
  return {};
}

}  // namespace headrace
