// Framing: a header of 24 bytes, then a body. All integers are little-endian; nothing is padded.
//
//   magic u16 "HR" | version u8 | type u8 | status u8 | reserved u8[3] | request u64 | length u64 | body
//
// A request's body is its name (u16 length, bytes) and then its payload; a response carries the request's number,
// its type with the high bit set, and a status. Replies come in the order of the requests.
//
//   request            payload                                      reply (status kOk)
//   kSignature         -                                            text of Signature::encode()
//   kInsert            i64 wait in ms, chunks                       u64 key of the last chunk's first transition
//   kSample            u32 B, f64 beta, i64 wait in ms (< 0: no     observation, next_observation, action, reward,
//                      deadline)                                    discount, weight, probability, key, policy_version
//   kUpdatePriorities  u64 key [n], f32 priority [n]                u64 applied
//   kPublish           u64 version, u64 size, u64 offset, bytes     u64 version, of the last part
//   kFetch             u64 newer_than, u64 offset                   u64 version, u64 size, bytes
//   kPut               u64 writer, u64 sequence, message            -
//   kDrain             u64 epoch, u64 seen                          u64 epoch, u64 last, (u32 length, message) *
//                                                                   of the first messages (Mailbox::take); 0, 0: none
//   kStats             - (and the name is empty)                    JSON text
//   kHello             u8 nonce [32] (name empty)                   u64 instance, u8 token (0: none, 1: required, 2:
//                                                                   optional), u8 nonce [32]
//   kAuthenticate      u8 proof [32] (name empty)                   u8 proof [32]
//   kOpenTable         u8 fresh, text of TableOptions::encode()     u64 transitions it holds
//   kSetState          u8 TableState                                -
//   kDrop              - (the name is a prefix)                     u64 tables, blobs, shards and mailboxes dropped
//   kClaim             u64 owner, u64 run, i64 keep in ms           -
//   kShare             u32 B, u32 count                             u64 bytes from one batch to the next; with it goes
//                                                                   the descriptor of memory for `count` batches
//   kSampleShared      u32 index, u32 B, f64 beta, i64 wait in ms   u32 index: that batch lies there (batch_sections.h)
//   kOpenShard         u8 fresh, u32 length, text of                u64 version
//                      ShardOptions::encode(), f32 initial [n or 0]
//   kPushGradient      u64 worker, u64 sequence, u64 base version,  u64 version, u64 staleness, u8 Verdict
//                      u64 own updates, u8 place, padding
//                      (gradient_padding), f32 gradient [n]
//   kFetchShard        u64 worker, i64 newer_than, u8 place         u64 version, f32 parameters [n]
//   kShardState        -                                            u64 steps, f32 parameters [n], f32 moments [M, n]
//   kLoadShard         u64 steps, f32 [(1 + M) n] as kShardState    -
//   kShareShard        -                                            u64 stride; with it goes the descriptor of memory
//                                                                   for a gradient and, at `stride`, parameters
//
// `place` (GradientPlace) says where floats are: after it in the frame, in the shared memory, or nowhere if the whole
// gradient counts as not finite.
//
// A blob of `size` bytes travels in parts, each the `bytes` from `offset` on; it is published, as one, with its last
// part, and all parts of a fetch are of one version.
//
// kNothing, with no body, answers an insert or a sample held to its deadline, fetches with nothing newer, and the parts
// of a blob but the last. Other statuses are an ErrorKind, and the body is the message.
//
// A connection begins with kHello. Where a token is required, kAuthenticate must follow before anything else:
//   client's proof = HMAC-SHA256(token, "headrace client" + server's nonce + client's nonce)
//   server's proof = HMAC-SHA256(token, "headrace server" + client's nonce + server's nonce)
// so each side shows that it knows the token, which is never sent. If none is required, kHello may be omitted.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "wire/limits.h"

namespace headrace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian and written as they lie");

inline constexpr std::uint16_t kFrameMagic = 0x5248;  // "HR"
inline constexpr std::uint8_t kProtocolVersion = 6;
inline constexpr std::size_t kFrameHeaderBytes = 24;
inline constexpr std::uint8_t kReplyBit = 0x80;

enum class MessageType : std::uint8_t {
  kSignature = 1,
  kInsert = 2,
  kSample = 3,
  kUpdatePriorities = 4,
  kPublish = 5,
  kFetch = 6,
  kPut = 7,
  kDrain = 8,
  kStats = 9,
  kHello = 10,
  kAuthenticate = 11,
  kOpenTable = 12,
  kSetState = 13,
  kDrop = 14,
  kClaim = 15,
  kShare = 16,
  kSampleShared = 17,
  kOpenShard = 18,
  kPushGradient = 19,
  kFetchShard = 20,
  kShardState = 21,
  kLoadShard = 22,
  kShareShard = 23,
};

// In the reply to hello. kOptional: the peer need not show the token; if it does, the server proves that it knows it.
enum class TokenNeed : std::uint8_t { kNone = 0, kRequired = 1, kOptional = 2 };

enum class GradientPlace : std::uint8_t { kFrame = 0, kShared = 1, kNowhere = 2 };

// Bytes of zero before a gradient in a frame, which then begins at a multiple of four from the frame's beginning.
inline std::size_t gradient_padding(std::size_t name_bytes) {
  const std::size_t before = kFrameHeaderBytes + sizeof(std::uint16_t) + name_bytes + 4 * sizeof(std::uint64_t) + 1;
  return -before % sizeof(float);
}

// Of a reply; ErrorKind's values stand between these two.
inline constexpr std::uint8_t kOk = 0;
inline constexpr std::uint8_t kNothing = 255;

struct FrameHeader {
  std::uint8_t type = 0;
  std::uint8_t status = 0;
  std::uint64_t request = 0;
  std::uint64_t length = 0;  // of the body
};

std::array<std::byte, kFrameHeaderBytes> encode_header(const FrameHeader& header);
// Throws kMalformed (magic, version, reserved bytes) and kRefused (length above the limit).
FrameHeader decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, const Limits& limits);

// Reads a body from front to back. Every method throws kMalformed, naming the field, where the body is too short.
class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : rest_(body) {}

  template <typename T>
  T number(const char* field) {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, bytes(sizeof(T), field).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> bytes(std::size_t count, const char* field);
  // Also throws kRefused for a name that is too long or not printable ASCII.
  std::string name(const Limits& limits);
  bool empty() const { return rest_.empty(); }
  std::span<const std::byte> rest() { return std::exchange(rest_, {}); }
  void end() const;  // throws kMalformed if bytes are left over

 private:
  std::span<const std::byte> rest_;
};

template <typename T>
void append_number(std::vector<std::byte>& bytes, T value) {
  static_assert(std::is_arithmetic_v<T>);
  const std::size_t size = bytes.size();
  bytes.resize(size + sizeof(T));
  std::memcpy(bytes.data() + size, &value, sizeof(T));
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Header, name and the fixed part of the payload of a request; `trailing_bytes` more follow from the caller's memory.
std::vector<std::byte> encode_request(MessageType type, std::uint64_t request, std::string_view name,
                                      std::span<const std::byte> payload, std::uint64_t trailing_bytes);
// Header and body of the reply to a request, of whose header only type and number count; `trailing_bytes` as above.
std::vector<std::byte> encode_reply(const FrameHeader& request, std::uint8_t status, std::span<const std::byte> body,
                                    std::uint64_t trailing_bytes);

}  // namespace headrace
