#include "io/client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "io/unix_socket.h"
#include "wire/batch_sections.h"

namespace headrace {
namespace {

constexpr auto kRetryPause = std::chrono::milliseconds(10);
constexpr auto kSlice = std::chrono::milliseconds(100);  // between two calls of the interrupt

FileDescriptor connect(const Address& address, Deadline deadline, const Interrupt& interrupt) {
  for (;;) {
    auto socket = connect_unix(address);
    if (socket) return socket;
    const std::string reason = std::strerror(errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      throw Error(ErrorKind::kSystem, "address '" + address.text() + "': no server answers (" + reason + ")");
    }
    if (interrupt) interrupt();
    std::this_thread::sleep_for(kRetryPause);
  }
}

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

Client::Client(const std::string& address, Deadline deadline, Interrupt interrupt, Limits limits)
    : limits_(limits),
      interrupt_(std::move(interrupt)),
      stream_(connect(Address::parse(address), deadline, interrupt_), address, interrupt_) {}

Client::Turn::Turn(Client& client) : client_(client) {
  std::unique_lock lock(client_.mutex_);
  while (!client_.free_.wait_for(lock, kSlice, [this] { return !client_.busy_; })) {
    lock.unlock();
    if (client_.interrupt_) client_.interrupt_();
    lock.lock();
  }
  if (!client_.stream_.is_open()) client_.stream_.throw_closed();
  client_.busy_ = true;
}

Client::Turn::~Turn() {
  {
    const std::lock_guard lock(client_.mutex_);
    client_.busy_ = false;
  }
  client_.free_.notify_one();
}

FrameHeader Client::request(MessageType type, std::string_view name, std::span<const std::byte> payload,
                            std::span<const std::span<const std::byte>> trailing) {
  std::uint64_t trailing_bytes = 0;
  for (const auto part : trailing) trailing_bytes += part.size();
  if (name.size() > limits_.max_name_bytes) {
    throw Error(ErrorKind::kRefused, "name of " + std::to_string(name.size()) + " bytes: at most " +
                                         std::to_string(limits_.max_name_bytes) + "; nothing is sent");
  }
  const auto head = encode_request(type, ++requests_, name, payload, trailing_bytes);
  if (head.size() - kFrameHeaderBytes + trailing_bytes > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "request of " + std::to_string(trailing_bytes) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; nothing is sent");
  }
  std::vector<std::span<const std::byte>> parts = {head};
  parts.insert(parts.end(), trailing.begin(), trailing.end());
  stream_.send(parts);

  std::array<std::byte, kFrameHeaderBytes> bytes;
  stream_.receive(bytes);
  FrameHeader reply;
  try {
    reply = decode_header(bytes, limits_);
  } catch (const Error& error) {
    throw_corrupt(error.what());
  }
  if (reply.request != requests_ || reply.type != (static_cast<std::uint8_t>(type) | kReplyBit)) {
    throw_corrupt("the reply belongs to another request");
  }
  if (reply.status == kOk || reply.status == kNothing) return reply;
  if (reply.status > static_cast<std::uint8_t>(ErrorKind::kSystem)) throw_corrupt("the reply's status is unknown");
  throw Error(static_cast<ErrorKind>(reply.status), std::string(as_text(receive_body(reply))));
}

std::vector<std::byte> Client::receive_body(const FrameHeader& reply) {
  std::vector<std::byte> body(reply.length);
  stream_.receive(body);
  return body;
}

std::uint64_t Client::receive_number(const FrameHeader& reply) {
  std::uint64_t number = 0;
  if (reply.status != kOk || reply.length != sizeof(number)) throw_corrupt("the reply is not one number");
  stream_.receive(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

void Client::throw_corrupt(const std::string& what) {
  stream_.shut();
  throw Error(ErrorKind::kCorrupt, what + "; the connection is closed");
}

Signature Client::request_signature(const std::string& table) {
  const auto body = receive_body(request(MessageType::kSignature, table, {}));
  return Signature::decode(as_text(body));
}

Signature Client::signature(const std::string& table) {
  const Turn turn(*this);
  return request_signature(table);
}

std::uint64_t Client::insert(const std::string& table, std::span<const std::byte> chunk) {
  const Turn turn(*this);
  return receive_number(request(MessageType::kInsert, table, {}, std::span(&chunk, 1)));
}

void Client::check_signature(const std::string& table, const Signature& signature) {
  auto found = signatures_.find(table);
  if (found == signatures_.end()) found = signatures_.emplace(table, request_signature(table)).first;
  if (found->second == signature) return;
  throw Error(ErrorKind::kInvalid, "batch: arrays of " + signature.encode() + "; table '" + table + "' holds " +
                                       found->second.encode() + "; nothing is sampled");
}

bool Client::sample(const std::string& table, const Signature& signature, const BatchView& batch,
                    double importance_exponent, std::optional<std::chrono::milliseconds> wait) {
  const Turn turn(*this);
  check_signature(table, signature);
  std::vector<std::byte> payload;
  append_number(payload, batch.size);
  append_number(payload, importance_exponent);
  append_number(payload, wait ? std::max<std::int64_t>(wait->count(), 0) : std::int64_t{-1});
  const auto reply = request(MessageType::kSample, table, payload);
  if (reply.status == kNothing) return false;
  const auto sections = sections_of(signature, batch);
  std::uint64_t bytes = 0;
  for (const auto section : sections) bytes += section.size();
  if (reply.length != bytes) throw_corrupt("the reply is not a batch of the size asked for");
  stream_.receive(sections);
  return true;
}

std::uint64_t Client::update_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                                        std::span<const float> priorities) {
  if (keys.size() != priorities.size()) {
    throw Error(ErrorKind::kInvalid, "priority: " + std::to_string(priorities.size()) + " values for " +
                                         std::to_string(keys.size()) + " keys; as many required");
  }
  const Turn turn(*this);
  const std::array parts = {std::as_bytes(keys), std::as_bytes(priorities)};
  return receive_number(request(MessageType::kUpdatePriorities, table, {}, parts));
}

std::uint64_t Client::publish(const std::string& name, std::uint64_t version, std::span<const std::byte> blob) {
  const Turn turn(*this);
  return receive_number(request(MessageType::kPublish, name, bytes_of(version), std::span(&blob, 1)));
}

std::optional<std::pair<std::uint64_t, std::vector<std::byte>>> Client::fetch(const std::string& name,
                                                                              std::uint64_t newer_than) {
  const Turn turn(*this);
  const auto reply = request(MessageType::kFetch, name, bytes_of(newer_than));
  if (reply.status == kNothing) return std::nullopt;
  std::uint64_t version = 0;
  if (reply.length < sizeof(version)) throw_corrupt("the reply is too short for a version");
  std::vector<std::byte> blob(reply.length - sizeof(version));
  const std::array<std::span<std::byte>, 2> parts = {std::as_writable_bytes(std::span(&version, 1)), blob};
  stream_.receive(parts);
  return std::pair(version, std::move(blob));
}

void Client::put(const std::string& mailbox, std::span<const std::byte> message) {
  const Turn turn(*this);
  receive_body(request(MessageType::kPut, mailbox, {}, std::span(&message, 1)));
}

std::vector<std::vector<std::byte>> Client::drain(const std::string& mailbox) {
  const Turn turn(*this);
  const auto bytes = receive_body(request(MessageType::kDrain, mailbox, {}));
  std::vector<std::vector<std::byte>> messages;
  for (BodyReader reader(bytes); !reader.empty();) {
    const auto length = reader.number<std::uint32_t>("message length");
    const auto message = reader.bytes(length, "message");
    messages.emplace_back(message.begin(), message.end());
  }
  return messages;
}

std::string Client::stats() {
  const Turn turn(*this);
  return std::string(as_text(receive_body(request(MessageType::kStats, "", {}))));
}

}  // namespace headrace
