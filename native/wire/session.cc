#include "wire/session.h"

#include <chrono>
#include <new>
#include <utility>

#include "wire/session_memory.h"

namespace headrace {
namespace {

constexpr std::string_view kClosing = "; the connection is closed";  // as decode_header() ends its messages

std::string last_words(std::string message) { return message.append(kClosing); }

std::string seconds(std::chrono::seconds wait) { return std::to_string(wait.count()) + " s"; }

}  // namespace

Session::Session(Server& server, SessionOptions options, Time now)
    : server_(server),
      limits_(options.limits),
      token_(options.token),
      nonce_(options.nonce),
      make_region_(std::move(options.make_region)),
      meter_(server.add_meter(std::move(options.peer))),
      input_(server.budget()),
      proven_(options.token == nullptr),
      now_(now),
      connected_(now),
      input_since_(now),
      output_since_(now),
      request_since_(now) {}

Session::~Session() = default;

bool Session::wants_input() const {
  if (closing_ || pending_ || gathered_) return false;
  std::size_t allowed = limits_.max_queued_bytes;
  std::size_t waiting = 0;
  for (const auto& block : blocks_) {
    if (!block || block.use_count() == 1) continue;
    allowed += block->bytes();
    ++waiting;
  }
  return waiting < blocks_.size() && output_.bytes() <= allowed;
}

std::span<std::byte> Session::prepare() { return input_.space(); }

void Session::commit(std::size_t count, Time now) {
  now_ = input_since_ = now;
  meter_->received_bytes.fetch_add(count);
  input_.commit(count);
  handle_frames();
}

void Session::consumed(std::size_t count, Time now) {
  now_ = output_since_ = now;
  if (!wants_input()) input_since_ = now;
  meter_->sent_bytes.fetch_add(count);
  output_.pop(count);
  gathered_ = false;
  handle_frames();
}

bool Session::resume(Time now) {
  now_ = now;
  if (pending_) {
    try_pending();
    if (pending_) return false;
    input_since_ = now;
    finish_front();
  }
  handle_frames();
  return !pending_;
}

void Session::expire(Time now) {
  now_ = now;
  if (output_.bytes() > 0 && now - output_since_ >= limits_.output_wait) closing_ = broken_ = true;
  if (closing_) return;
  if (!proven_ && now - connected_ >= limits_.proof_wait) {
    give_up({}, ErrorKind::kSystem, last_words("token: not shown within " + seconds(limits_.proof_wait)));
  } else if (wants_input() && !input_.bytes().empty() && now - input_since_ >= limits_.frame_wait) {
    give_up({}, ErrorKind::kSystem, last_words("frame: begun, and nothing came for " + seconds(limits_.frame_wait)));
  } else if (!pending_ && output_.bytes() == 0 && now - request_since_ >= limits_.idle_wait) {
    closing_ = true;
  }
}

std::size_t Session::front_frame_bytes() const { return kFrameHeaderBytes + (front_ ? front_->length : 0); }

void Session::finish_front() {
  input_.pop(front_frame_bytes());
  front_.reset();
}

void Session::handle_frames() {
  while (wants_input()) {
    const auto bytes = input_.bytes();
    if (!front_ && bytes.size() >= kFrameHeaderBytes && !decode_front(bytes.first<kFrameHeaderBytes>())) return;
    if (!front_ || bytes.size() < front_frame_bytes()) return make_room();
    handle(*front_, bytes.subspan(kFrameHeaderBytes, front_->length));
    if (pending_) return;  // the held request keeps its bytes
    finish_front();
  }
}

bool Session::decode_front(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  try {
    front_ = decode_header(bytes, limits_);
  } catch (const Error& error) {
    give_up({}, error.kind(), error.what());
    return false;
  }
  if (proven_ || front_->length <= limits_.max_unproven_frame_bytes) return true;
  give_up(*front_, ErrorKind::kRefused,
          last_words("frame of " + std::to_string(front_->length) + " bytes: at most " +
                     std::to_string(limits_.max_unproven_frame_bytes) +
                     " before the token that this server requires is shown"));
  return false;
}

void Session::make_room() {
  try {
    input_.make_room(front_frame_bytes());
  } catch (const Error& error) {
    give_up(front_.value_or(FrameHeader{}), error.kind(), last_words(error.what()));
  } catch (const std::bad_alloc&) {
    give_up(front_.value_or(FrameHeader{}), ErrorKind::kSystem, last_words("the server is out of memory"));
  }
}

void Session::give_up(const FrameHeader& request, ErrorKind kind, std::string_view message) {
  reply_error(request, kind, message);
  closing_ = true;
}

void Session::handle(const FrameHeader& header, std::span<const std::byte> body) {
  meter_->requests.fetch_add(1);
  request_since_ = now_;
  try {
    dispatch(header, body);
  } catch (const Error& error) {
    if (!proven_) return give_up(header, error.kind(), last_words(error.what()));
    reply_error(header, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    reply_error(header, ErrorKind::kSystem, "the server is out of memory; the request is dropped");
  }
}

void Session::reply_head(const FrameHeader& request, std::span<const std::byte> body, std::uint64_t later_bytes) {
  const std::uint64_t length = body.size() + later_bytes;
  if (length > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "reply of " + std::to_string(length) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; it is not sent");
  }
  push(encode_reply(request, kOk, body, later_bytes));
}

void Session::reply(const FrameHeader& request, std::span<const std::byte> body) { reply_head(request, body, 0); }

void Session::reply_nothing(const FrameHeader& request) { push(encode_reply(request, kNothing, {}, 0)); }

void Session::reply_error(const FrameHeader& request, ErrorKind kind, std::string_view message) {
  push(encode_reply(request, static_cast<std::uint8_t>(kind), as_bytes(message), 0));
}

void Session::push(std::vector<std::byte> frame, std::shared_ptr<const void> owner, int descriptor) {
  if (output_.bytes() == 0) output_since_ = now_;
  output_.push(std::move(frame), std::move(owner), descriptor);
}

}  // namespace headrace
