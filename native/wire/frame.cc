#include "wire/frame.h"

#include <algorithm>

namespace headrace {
namespace {

void store(std::byte* to, auto value) { std::memcpy(to, &value, sizeof(value)); }

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

std::array<std::byte, kFrameHeaderBytes> encode_header(const FrameHeader& header) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  store(&bytes[0], kFrameMagic);
  store(&bytes[2], kProtocolVersion);
  store(&bytes[3], header.type);
  store(&bytes[4], header.status);
  store(&bytes[8], header.request);
  store(&bytes[16], header.length);
  return bytes;
}

FrameHeader decode_header(std::span<const std::byte, kFrameHeaderBytes> bytes, const Limits& limits) {
  if (const auto magic = load<std::uint16_t>(&bytes[0]); magic != kFrameMagic) {
    throw Error(ErrorKind::kMalformed, "frame magic " + std::to_string(magic) + ": required " +
                                           std::to_string(kFrameMagic) + "; the connection is closed");
  }
  if (const auto version = load<std::uint8_t>(&bytes[2]); version != kProtocolVersion) {
    throw Error(ErrorKind::kMalformed, "protocol version " + std::to_string(version) + ": required " +
                                           std::to_string(kProtocolVersion) + "; the connection is closed");
  }
  if (bytes[5] != std::byte{0} || bytes[6] != std::byte{0} || bytes[7] != std::byte{0}) {
    throw Error(ErrorKind::kMalformed, "frame's reserved bytes: required 0; the connection is closed");
  }
  const FrameHeader header{load<std::uint8_t>(&bytes[3]), load<std::uint8_t>(&bytes[4]), load<std::uint64_t>(&bytes[8]),
                           load<std::uint64_t>(&bytes[16])};
  if (header.length > limits.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "frame of " + std::to_string(header.length) + " bytes: at most " +
                                         std::to_string(limits.max_frame_bytes) + "; the connection is closed");
  }
  return header;
}

std::span<const std::byte> BodyReader::bytes(std::size_t count, const char* field) {
  if (count > rest_.size()) {
    throw Error(ErrorKind::kMalformed, std::string(field) + ": " + std::to_string(count) + " bytes required, " +
                                           std::to_string(rest_.size()) + " left in the frame");
  }
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

std::string BodyReader::name(const Limits& limits) {
  const auto length = number<std::uint16_t>("name length");
  if (length > limits.max_name_bytes) {
    throw Error(ErrorKind::kRefused,
                "name of " + std::to_string(length) + " bytes: at most " + std::to_string(limits.max_name_bytes));
  }
  const auto text = as_text(bytes(length, "name"));
  if (!printable(text)) throw Error(ErrorKind::kRefused, "name: printable ASCII required");
  return std::string(text);
}

void BodyReader::end() const {
  if (!rest_.empty()) {
    throw Error(ErrorKind::kMalformed, std::to_string(rest_.size()) + " bytes too many at the end of the frame");
  }
}

std::vector<std::byte> encode_request(MessageType type, std::uint64_t request, std::string_view name,
                                      std::span<const std::byte> payload, std::uint64_t trailing_bytes) {
  const std::uint64_t length = sizeof(std::uint16_t) + name.size() + payload.size() + trailing_bytes;
  const auto header = encode_header({static_cast<std::uint8_t>(type), kOk, request, length});
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.reserve(kFrameHeaderBytes + length - trailing_bytes);
  append_number(bytes, static_cast<std::uint16_t>(name.size()));
  bytes.insert(bytes.end(), as_bytes(name).begin(), as_bytes(name).end());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

std::vector<std::byte> encode_reply(const FrameHeader& request, std::uint8_t status, std::span<const std::byte> body,
                                    std::uint64_t trailing_bytes) {
  const auto type = static_cast<std::uint8_t>(request.type | kReplyBit);
  const auto header = encode_header({type, status, request.request, body.size() + trailing_bytes});
  std::vector<std::byte> bytes(header.size() + body.size());
  std::ranges::copy(body, std::ranges::copy(header, bytes.begin()).out);
  return bytes;
}

}  // namespace headrace
