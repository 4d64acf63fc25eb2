// What a connection reports of bytes that it sends from where they lie.
#include "bypass/tcp_connection.h"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "bypass/memory_ports.h"
#include "bypass/polled_client.h"
#include "bypass/stack.h"
#include "bypass/tcp_listener.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::testing;

namespace {

constexpr std::size_t kEthernetBytes = 14;
constexpr std::size_t kIpBytes = 20;
constexpr std::size_t kAckOffset = kEthernetBytes + kIpBytes + 8;
constexpr std::size_t kWindowOffset = kEthernetBytes + kIpBytes + 14;
constexpr std::size_t kChecksumOffset = kEthernetBytes + kIpBytes + 16;

std::uint32_t number_in(const Frame& frame, std::size_t offset, int bytes) {
  std::uint32_t number = 0;
  for (int i = 0; i < bytes; ++i) number = number << 8 | std::to_integer<std::uint32_t>(frame[offset + i]);
  return number;
}

void put_number(Frame& frame, std::size_t offset, int bytes, std::uint32_t number) {
  for (int i = bytes - 1; i >= 0; --i, number >>= 8) frame[offset + i] = static_cast<std::byte>(number);
}

// Changes a field of a segment and its checksum (RFC 1624).
void change(Frame& frame, std::size_t offset, int bytes, std::uint32_t after) {
  const std::uint32_t before = number_in(frame, offset, bytes);
  std::uint32_t sum = ~number_in(frame, kChecksumOffset, 2) & 0xffff;
  if (bytes == 4) sum += (~before >> 16) + (after >> 16);
  sum += (~before & 0xffff) + (after & 0xffff);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  put_number(frame, offset, bytes, after);
  put_number(frame, kChecksumOffset, 2, ~sum & 0xffff);
}

// Makes a segment acknowledge so many bytes less.
void acknowledge_less(Frame& frame, std::uint32_t less) {
  change(frame, kAckOffset, 4, number_in(frame, kAckOffset, 4) - less);
}

bool is_tcp(const Frame& frame) { return frame.size() > kChecksumOffset && number_in(frame, 12, 2) == 0x0800; }

struct Pair {
  Pair()
      : server_side(wire.server_port(), {0x0a080001, 24}, 1500),
        client_side(wire.client_port(), {0x0a080002, 24}, 1500),
        listener(server_side, 9),
        client(TcpConnection::connect(client_side, 0x0a080001, 9)) {
    for (int i = 0; i < 5000 && !server; ++i) {
      turn();
      for (auto& each : listener.take_accepted()) server = std::move(each);
    }
    REQUIRE(server);
    turn();
  }

  void turn() {
    advance_stack(stack_clock() += std::chrono::milliseconds(1));
    server_side.poll();
    client_side.poll();
  }

  MemoryWire wire;
  Interface server_side, client_side;
  TcpListener listener;
  std::unique_ptr<TcpConnection> client, server;
};

}  // namespace

TEST_CASE("bytes of a segment are in use until all of it is acknowledged") {
  Pair pair;
  const Bytes bytes(1000, std::byte{7});
  bool changed = false;
  pair.wire.to_server->passes = [&](Frame& frame) {
    if (is_tcp(frame)) {
      acknowledge_less(frame, 400);
      changed = true;
    }
    return true;
  };
  REQUIRE(pair.server->write(bytes) == 1000);
  CHECK(pair.server->push());
  for (int i = 0; i < 5000 && !changed; ++i) pair.turn();
  REQUIRE(changed);
  for (int i = 0; i < 5; ++i) pair.turn();
  CHECK(pair.server->take_acknowledged() == 0);
  CHECK(pair.server->in_flight() == 1000);
  pair.wire.to_server->passes = [](Frame&) { return true; };
  std::size_t acknowledged = 0;
  for (int i = 0; i < 5000 && acknowledged == 0; ++i) {
    pair.turn();
    acknowledged = pair.server->take_acknowledged();
  }
  CHECK(acknowledged == 1000);
  CHECK(pair.server->in_flight() == 0);
}

TEST_CASE("a connection that ends with unacknowledged bytes is reset, and otherwise closed") {
  for (const bool acknowledged : {false, true}) {
    CAPTURE(acknowledged);
    Pair pair;
    {
      const Bytes bytes(1000, std::byte{7});
      pair.server->write(bytes);
      pair.server->push();
      for (int i = 0; i < 100 && acknowledged && pair.server->in_flight() > 0; ++i) {
        pair.turn();
        pair.server->take_acknowledged();
      }
      pair.server.reset();
    }
    for (int i = 0; i < 100; ++i) pair.turn();
    CHECK(pair.client->lost() == !acknowledged);
    CHECK(pair.client->ended() == acknowledged);
  }
}

TEST_CASE("a peer that takes its window back and then acknowledges ends no process") {
  Pair pair;
  const Bytes bytes(1000, std::byte{7});
  const Bytes one(1, std::byte{1});
  pair.wire.to_server->passes = [&](Frame& frame) {
    if (!is_tcp(frame)) return true;
    if (number_in(frame, kAckOffset, 4) == 0) return true;
    acknowledge_less(frame, 1000);
    change(frame, kWindowOffset, 2, 0);
    return true;
  };
  REQUIRE(pair.server->write(bytes) == 1000);
  CHECK(pair.server->push());
  for (int i = 0; i < 2; ++i) {  // the second segment is newer than the last one whose window counted
    for (int j = 0; j < 5; ++j) pair.turn();
    REQUIRE(pair.client->write(one) == 1);
    pair.client->push();
  }
  for (int i = 0; i < 4000; ++i) pair.turn();  // the server's timer has moved its segment back to those to be sent
  pair.wire.to_server->passes = [](Frame&) { return true; };
  REQUIRE(pair.client->write(one) == 1);
  pair.client->push();
  for (int i = 0; i < 2000; ++i) pair.turn();
  CHECK(pair.server->take_acknowledged() == 1000);
  CHECK(!pair.server->lost());
}

TEST_CASE("what a peer sends waits in order, up to the window") {
  Pair pair;
  const Bytes bytes(2 * TcpConnection::kWindowBytes, std::byte{1});
  std::size_t written = 0;
  for (int i = 0; i < 5000; ++i) {
    pair.client->take_acknowledged();
    written += pair.client->write(std::span(bytes).subspan(written));
    pair.client->push();
    pair.turn();
  }
  CHECK(written < bytes.size());
  Bytes received(bytes.size());
  std::size_t read = 0;
  for (std::size_t count = 1; count > 0; read += count) count = pair.server->read(std::span(received).subspan(read));
  CHECK(read <= TcpConnection::kWindowBytes);
  CHECK(read > TcpConnection::kWindowBytes / 2);
}

TEST_CASE("small segments that wait keep their bytes and their order, and not their frames") {
  Pair pair;
  const std::size_t sizes[] = {1, 1, 700, 3, 511, 512, 1460, 1};
  constexpr std::size_t kTurns = 1200;
  Bytes sent;
  Bytes received;
  const auto read = [&](std::size_t most) {
    Bytes bytes(most);
    bytes.resize(pair.server->read(bytes));
    received += bytes;
  };
  std::size_t large = 0;
  unsigned next = 0;
  for (std::size_t i = 0; i < kTurns; ++i) {
    const std::size_t size = sizes[i % std::size(sizes)];
    large += size >= 512;
    Bytes bytes(size);
    for (auto& each : bytes) each = static_cast<std::byte>(next++ % 251);
    REQUIRE(pair.client->copy(bytes) == size);
    sent += bytes;
    pair.client->push();
    pair.turn();
    pair.turn();
    if (i % 7 == 0) read(1 + i % 1000);
  }
  CHECK(pair.wire.to_server->held <= large + 1);
  CHECK(received.size() < sent.size() / 2);
  read(sent.size());
  CHECK(received == sent);
  CHECK(pair.wire.to_server->held == 0);
}
