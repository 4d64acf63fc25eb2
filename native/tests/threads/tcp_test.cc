#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "io/listener.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

constexpr std::string_view kSecret = "a secret of 16 bytes or more";

bool has_ipv6() {
  try {
    return !listen_on(Address::parse("tcp://[::1]:0")).empty();
  } catch (const Error&) {
    return false;
  }
}

int option_of(const FileDescriptor& socket, int level, int option) {
  int value = 0;
  socklen_t size = sizeof(value);
  REQUIRE(::getsockopt(socket.get(), level, option, &value, &size) == 0);
  return value;
}

ClientOptions with_token(const std::string& address, std::string_view secret) {
  auto options = to(address);
  options.token = token_of(secret);
  return options;
}

}  // namespace

TEST_CASE("IPv6 works like IPv4") {
  if (!has_ipv6()) return;
  Served served(small_table(), {}, "tcp://[::1]:0");
  CHECK(served.address.starts_with("tcp://[::1]:"));
  Client client(to(served.address));
  CHECK(client.insert("replay", chunk_of(10)) == 0);
  CHECK(client.stats().find("\"peer\": \"tcp [::1]:") != std::string::npos);
}

TEST_CASE("a name's addresses are all listened on, on one port") {
  const auto listeners = listen_on(Address::parse("tcp://localhost:0"));
  REQUIRE(!listeners.empty());
  for (const auto& listener : listeners) {
    CHECK(listener->local());
    CHECK(listener->address().name == "localhost");
    CHECK(listener->address().port == listeners[0]->address().port);
  }
  CHECK(connect_to(listeners[0]->address(), milliseconds(5000)));
  auto four = listeners[0]->address();
  four.name = "127.0.0.1";
  CHECK(connect_to(four, milliseconds(5000)));
}

TEST_CASE("a port in use and a host that is not ours are named") {
  const auto first = listen_on(Address::parse("tcp://127.0.0.1:0"));
  const auto address = first[0]->address();
  std::string what;
  CHECK(kind_of([&] { listen_on(address); }, &what) == ErrorKind::kSystem);
  CHECK_MESSAGE(what.find(address.text()) != std::string::npos, what);
  CHECK(kind_of([&] { listen_on(Address::parse("tcp://192.0.2.1:0")); }, &what) == ErrorKind::kSystem);
  CHECK_MESSAGE(what.find("192.0.2.1") != std::string::npos, what);
}

TEST_CASE("both ends of a connection send at once and notice a peer that vanishes") {
  const auto listeners = listen_on(Address::parse("tcp://127.0.0.1:0"));
  const auto here = connect_to(listeners[0]->address(), milliseconds(5000));
  Accepted there;
  REQUIRE(eventually([&] { return bool((there = listeners[0]->accept()).socket); }));
  CHECK(there.peer.starts_with("tcp 127.0.0.1:"));
  for (const FileDescriptor* socket : {&here, &std::as_const(there.socket)}) {
    CHECK(option_of(*socket, IPPROTO_TCP, TCP_NODELAY) == 1);
    CHECK(option_of(*socket, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option_of(*socket, IPPROTO_TCP, TCP_KEEPIDLE) == 15);
    CHECK(option_of(*socket, IPPROTO_TCP, TCP_USER_TIMEOUT) == 60'000);
  }
}

TEST_CASE("without a listener, a socket does not connect to itself") {
  std::string address;
  { address = listen_on(Address::parse("tcp://127.0.0.1:0"))[0]->address().text(); }
  CHECK_FALSE(connect_to(Address::parse(address), milliseconds(1000)));
  CHECK(errno == ECONNREFUSED);
}

TEST_CASE("beyond loopback a token is required to listen") {
  Server server;
  Loop open(server);
  for (const std::string address : {"tcp://0.0.0.0:0", "tcp://[::]:0"}) {
    if (address.find('[') != std::string::npos && !has_ipv6()) continue;
    std::string what;
    CHECK(kind_of([&] { open.listen(address); }, &what) == ErrorKind::kRefused);
    CHECK_MESSAGE(what.find("'" + address + "'") != std::string::npos, what);
    CHECK_MESSAGE(what.find("a token is required: pass --token-file") != std::string::npos, what);
  }
  CHECK(open.listen("tcp://127.0.0.1:0").starts_with("tcp://127.0.0.1:"));

  Loop guarded(server, {.token = token_of(kSecret)});
  const auto port = Address::parse(guarded.listen("tcp://0.0.0.0:0")).port;
  Client(with_token("tcp://127.0.0.1:" + std::to_string(port), kSecret)).stats();
}

TEST_CASE("the token: right, wrong, missing") {
  Served served(small_table(), {.token = token_of(kSecret)}, "tcp://127.0.0.1:0");
  Client client(with_token(served.address, kSecret));
  CHECK(client.insert("replay", chunk_of(10)) == 0);

  // A refusal is final, however long a client is told to try.
  auto wrong = with_token(served.address, "another secret of 16 bytes");
  wrong.connect_timeout = wrong.reconnect_timeout = std::chrono::hours(1);
  CHECK(kind_of([&] { Client{wrong}; }) == ErrorKind::kRefused);
  std::string what;
  CHECK(kind_of([&] { Client{to(served.address)}; }, &what) == ErrorKind::kRefused);
  CHECK_MESSAGE(what.find("--token-file") != std::string::npos, what);
  CHECK(served.table->size() == 10);
}

TEST_CASE("a client with a token refuses a server that has none") {
  for (const std::string where : {"unix:@", "tcp://127.0.0.1:0"}) {
    Served served(small_table(), {}, where);
    std::string what;
    CHECK(kind_of([&] { Client(with_token(served.address, kSecret)); }, &what) == ErrorKind::kRefused);
    CHECK_MESSAGE(what.find("the server has none") != std::string::npos, what);
  }
}

TEST_CASE("over a Unix socket no token is required, and one that is given is proven by both sides") {
  Served served(small_table(), {.token = token_of(kSecret)});
  Client(to(served.address)).stats();
  Client(with_token(served.address, kSecret)).stats();
  CHECK(kind_of([&] { Client(with_token(served.address, "another secret of 16 bytes")); }) == ErrorKind::kRefused);
}

// Connects with a token to a server that sends the client's proof back; `need` is in its hello.
static void check_echo_refused(const std::string& where, TokenNeed need) {
  const auto listeners = listen_on(Address::parse(where));
  std::jthread impostor([&] {
    Accepted client;
    REQUIRE(eventually([&] { return bool((client = listeners[0]->accept()).socket); }));
    const auto receive = [&](std::size_t bytes) {
      Bytes all;
      CHECK(eventually([&] {
        Bytes some(bytes - all.size());
        const auto count = ::recv(client.socket.get(), some.data(), some.size(), 0);
        if (count > 0) all += std::span<const std::byte>(some).first(static_cast<std::size_t>(count));
        return all.size() == bytes;
      }));
      return all;
    };
    const auto send = [&](MessageType type, std::uint64_t request, std::span<const std::byte> body) {
      const auto header = encode_header(
          {static_cast<std::uint8_t>(static_cast<std::uint8_t>(type) | kReplyBit), kOk, request, body.size()});
      Bytes bytes(header.begin(), header.end());
      bytes += body;
      CHECK(::send(client.socket.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    };
    receive(kFrameHeaderBytes + 2 + kNonceBytes);
    auto hello = numbers(std::uint64_t{7}, static_cast<std::uint8_t>(need));
    hello += Bytes(kNonceBytes);
    send(MessageType::kHello, 1, hello);
    const auto proof = receive(kFrameHeaderBytes + 2 + kProofBytes);
    send(MessageType::kAuthenticate, 2, std::span<const std::byte>(proof).last(kProofBytes));
  });
  std::string what;
  CHECK(kind_of([&] { Client(with_token(listeners[0]->address().text(), kSecret)); }, &what) == ErrorKind::kRefused);
  CHECK_MESSAGE(what.find("does not know the token") != std::string::npos, what);
}

TEST_CASE("a server that echoes the client's proof is refused") {
  check_echo_refused("tcp://127.0.0.1:0", TokenNeed::kRequired);
  check_echo_refused("unix:@", TokenNeed::kOptional);
}

TEST_CASE("a server that has not authenticated cannot make the client allocate a long reply") {
  const auto listeners = listen_on(Address::parse("tcp://127.0.0.1:0"));
  std::jthread impostor([&] {
    Accepted client;
    REQUIRE(eventually([&] { return bool((client = listeners[0]->accept()).socket); }));
    const auto header = encode_header(
        {static_cast<std::uint8_t>(static_cast<std::uint8_t>(MessageType::kHello) | kReplyBit), kOk, 1, 200'000'000});
    CHECK(::send(client.socket.get(), header.data(), header.size(), 0) == static_cast<ssize_t>(header.size()));
    std::array<char, 256> hello;
    CHECK(eventually([&] {
      const auto count = ::recv(client.socket.get(), hello.data(), hello.size(), 0);
      return count == 0 || (count < 0 && errno != EAGAIN);
    }));
  });
  std::string what;
  CHECK(kind_of([&] { Client(to(listeners[0]->address().text())); }, &what) == ErrorKind::kMalformed);
  CHECK_MESSAGE(what.find("200000000 bytes: at most 1024") != std::string::npos, what);
}
