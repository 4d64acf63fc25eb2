#include "bypass/stack.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>

#include "core/entropy.h"
#include "core/random.h"
#include "wire/sha256.h"

extern "C" {
#include <hooks.h>
#include <lwip/init.h>
#include <lwip/priv/tcp_priv.h>
#include <lwip/sys.h>
#include <lwip/timeouts.h>
}

namespace headrace::bypass {
namespace {

using std::chrono::duration_cast;

struct Stack {
  Stack() { fill_with_entropy(secret); }
  Deadline start = never();  // the time of the first advance_stack()
  Deadline now = {};
  std::uint32_t milliseconds = 0;
  std::array<std::byte, 32> secret;
  Random random{draw_entropy()};
};

Stack& stack() {
  static Stack only;
  return only;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// A peer that takes its window back, and then acknowledges what is to be sent again, leaves lwIP probing a window for
// no data, which its timer takes for an impossible state: any host could end the server.
void end_idle_probes() {
  for (auto* each = tcp_active_pcbs; each != nullptr; each = each->next) {
    if (each->unsent == nullptr) each->persist_backoff = 0;
  }
}

}  // namespace

void start_stack() {
  static const bool started = [] {
    stack();
    lwip_init();
    return true;
  }();
  static_cast<void>(started);
}

void advance_stack(Deadline now) {
  auto& state = stack();
  state.now = now;
  // lwIP starts its timers at 0, and compares times within 24 days.
  if (state.start == never()) state.start = now;
  const auto since = duration_cast<std::chrono::milliseconds>(now - state.start).count();
  const auto milliseconds = static_cast<std::uint32_t>(since);
  if (milliseconds == state.milliseconds) return;
  state.milliseconds = milliseconds;
  if (sys_timeouts_sleeptime() > 0) return;
  end_idle_probes();
  sys_check_timeouts();
}

}  // namespace headrace::bypass

using headrace::bypass::stack;

extern "C" {

u32_t sys_now() { return stack().milliseconds; }

uint32_t headrace_random() { return static_cast<std::uint32_t>(stack().random.next()); }

u32_t headrace_initial_sequence(const ip_addr_t* local_ip, u16_t local_port, const ip_addr_t* remote_ip,
                                u16_t remote_port) {
  using headrace::bypass::bytes_of;
  const std::array<std::uint32_t, 4> ends = {local_ip->addr, local_port, remote_ip->addr, remote_port};
  const auto digest = headrace::hmac_sha256(stack().secret, {bytes_of(ends)});
  std::uint32_t offset = 0;
  std::memcpy(&offset, digest.data(), sizeof(offset));
  const auto since = std::chrono::duration_cast<std::chrono::microseconds>(stack().now.time_since_epoch());
  return offset + static_cast<std::uint32_t>(since.count() / 4);
}

// Four bytes at a time; the carries are folded at the end, in which the sum does not depend on the width.
uint16_t headrace_checksum(const void* data, int length) {
  const auto* at = static_cast<const std::byte*>(data);
  auto left = static_cast<std::size_t>(length);
  std::uint64_t sum = 0;
  const auto take = [&]<typename Word>(Word word) {
    std::memcpy(&word, at, sizeof(word));
    sum += word;
    at += sizeof(word);
    left -= sizeof(word);
  };
  while (left >= sizeof(std::uint32_t)) take(std::uint32_t{});
  if (left >= sizeof(std::uint16_t)) take(std::uint16_t{});
  if (left > 0) take(std::uint8_t{});
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

void headrace_assertion_failed(const char* message) {
  std::fprintf(stderr, "headrace: the TCP stack is in an impossible state: %s\n", message);
  std::abort();
}
}
