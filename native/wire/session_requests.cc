// What a session does for each type of request.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <utility>

#include "wire/batch_sections.h"
#include "wire/session.h"
#include "wire/stats_json.h"

namespace headrace {
namespace {

constexpr std::int64_t kMaxWaitMilliseconds = 1'000'000'000;  // eleven days; keeps `now` + wait from overflowing
constexpr std::size_t kKeyBytes = sizeof(std::uint64_t) + sizeof(float);  // of one priority update

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace

// One batch's memory, reused from sample to sample once the peer has taken the last one.
struct Session::Block {
  static constexpr std::align_val_t kAlignment{64};

  explicit Block(std::size_t bytes)
      : capacity(bytes), data(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {}
  ~Block() { ::operator delete(data, kAlignment); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::size_t capacity;
  std::byte* data;
};

void Session::dispatch(const FrameHeader& header, std::span<const std::byte> bytes, Time now) {
  if (header.status != kOk) throw Error(ErrorKind::kCorrupt, "status of a request: required 0");
  if (header.type < static_cast<std::uint8_t>(MessageType::kSignature) ||
      header.type > static_cast<std::uint8_t>(MessageType::kStats)) {
    throw Error(ErrorKind::kInvalid, "message type " + std::to_string(header.type) + " is unknown");
  }
  BodyReader body(bytes);
  const auto name = body.name(limits_);
  const auto type = static_cast<MessageType>(header.type);
  if (name.empty() != (type == MessageType::kStats)) {
    throw Error(ErrorKind::kRefused, name.empty() ? "name: at least 1 byte required" : "name of stats: required empty");
  }
  switch (type) {
    case MessageType::kSignature:
      body.end();
      return reply(header, as_bytes(server_.table(name)->options().signature.encode()));
    case MessageType::kInsert:
      begin_insert(header, name, body);
      return try_pending(now);
    case MessageType::kSample:
      begin_sample(header, name, body, now);
      return try_pending(now);
    case MessageType::kUpdatePriorities:
      return update_priorities(header, name, body);
    case MessageType::kPublish:
      return publish(header, name, body);
    case MessageType::kFetch:
      return fetch(header, name, body);
    case MessageType::kPut: {
      const auto message = body.rest();
      server_.mailbox(name)->put({message.begin(), message.end()});
      return reply(header, {});
    }
    case MessageType::kDrain:
      body.end();
      return drain(header, name);
    case MessageType::kStats:
      body.end();
      return reply(header, as_bytes(stats_json(server_)));
  }
}

void Session::begin_insert(const FrameHeader& header, const std::string& name, BodyReader& body) {
  pending_ = Pending{header, server_.table(name), never(), InsertRequest{body.rest()}};
}

void Session::begin_sample(const FrameHeader& header, const std::string& name, BodyReader& body, Time now) {
  const auto size = body.number<std::uint32_t>("batch size");
  const auto importance_exponent = body.number<double>("importance exponent");
  const auto wait = body.number<std::int64_t>("wait");
  body.end();
  if (size == 0 || size > limits_.max_batch) {
    throw Error(ErrorKind::kInvalid,
                "batch size " + std::to_string(size) + ": required 1 to " + std::to_string(limits_.max_batch));
  }
  if (!std::isfinite(importance_exponent)) {
    throw Error(ErrorKind::kInvalid, "importance exponent: a finite number required");
  }
  auto table = server_.table(name);
  const auto bytes = block_bytes(table->options().signature, size);
  if (bytes > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "batch of " + std::to_string(size) + " transitions takes " +
                                         std::to_string(bytes) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; nothing is sampled");
  }
  if (!block_ || block_.use_count() > 1 || block_->capacity < bytes) block_ = std::make_shared<Block>(bytes);
  const auto deadline = wait < 0 ? never() : now + std::chrono::milliseconds(std::min(wait, kMaxWaitMilliseconds));
  pending_ = Pending{header, std::move(table), deadline, SampleRequest{size, importance_exponent}};
}

bool Session::try_insert(const InsertRequest& request) {
  const auto key = pending_->table->try_insert(request.chunk);
  if (!key) return false;
  reply(pending_->header, bytes_of(*key));
  return true;
}

bool Session::try_sample(const SampleRequest& request) {
  const auto& signature = pending_->table->options().signature;
  const auto view = lay_out(signature, request.size, block_->data);
  if (!pending_->table->try_sample(view, request.importance_exponent)) return false;
  const auto sections = sections_of(signature, view);
  std::uint64_t bytes = 0;
  for (const auto section : sections) bytes += section.size();
  reply_head(pending_->header, {}, bytes);
  for (const auto section : sections) output_.push(block_, section);
  return true;
}

void Session::update_priorities(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto payload = body.rest();
  if (payload.size() % kKeyBytes != 0) {
    throw Error(ErrorKind::kCorrupt, "keys and priorities of " + std::to_string(payload.size()) +
                                         " bytes: a multiple of " + std::to_string(kKeyBytes) + " required");
  }
  const std::size_t count = payload.size() / kKeyBytes;
  std::vector<std::uint64_t> keys(count);  // copies: a frame's body lies at any address
  std::vector<float> priorities(count);
  if (count > 0) {
    std::memcpy(keys.data(), payload.data(), count * sizeof(std::uint64_t));
    std::memcpy(priorities.data(), payload.data() + count * sizeof(std::uint64_t), count * sizeof(float));
  }
  const std::uint64_t applied = server_.table(name)->update_priorities(keys, priorities);
  reply(header, bytes_of(applied));
}

void Session::publish(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto version = body.number<std::uint64_t>("version");
  const auto blob = body.rest();
  const std::uint64_t stored = server_.parameters().publish(name, version, {blob.begin(), blob.end()});
  reply(header, bytes_of(stored));
}

void Session::fetch(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto newer_than = body.number<std::uint64_t>("newer_than");
  body.end();
  const auto blob = server_.parameters().fetch(name, newer_than);
  if (!blob) return reply_nothing(header);
  reply_head(header, bytes_of(blob->version), blob->bytes.size());
  output_.push(blob, blob->bytes);
}

void Session::drain(const FrameHeader& header, const std::string& name) {
  std::vector<std::byte> body;
  for (const auto& message : server_.mailbox(name)->drain()) {
    append_number(body, static_cast<std::uint32_t>(message.size()));
    body.insert(body.end(), message.begin(), message.end());
  }
  reply(header, body);
}

}  // namespace headrace
