#include "wire/session.h"

#include <new>
#include <type_traits>
#include <utility>

namespace headrace {

Session::Session(Server& server, Limits limits) : server_(server), limits_(limits) {}

bool Session::wants_input() const { return !closing_ && !pending_ && output_.bytes() <= limits_.max_queued_bytes; }

std::size_t Session::front_frame_bytes() const { return kFrameHeaderBytes + (front_ ? front_->length : 0); }

std::span<std::byte> Session::prepare() { return input_.space(front_frame_bytes()); }

void Session::commit(std::size_t count, Time now) {
  input_.commit(count);
  handle_frames(now);
}

void Session::consumed(std::size_t count, Time now) {
  output_.pop(count);
  handle_frames(now);
}

bool Session::resume(Time now) {
  if (pending_) {
    try_pending(now);
    if (pending_) return false;
    finish_front();
  }
  handle_frames(now);
  return !pending_;
}

void Session::finish_front() {
  input_.pop(front_frame_bytes());
  front_.reset();
}

void Session::handle_frames(Time now) {
  while (wants_input()) {
    const auto bytes = input_.bytes();
    if (!front_) {
      if (bytes.size() < kFrameHeaderBytes) return;
      try {
        front_ = decode_header(bytes.first<kFrameHeaderBytes>(), limits_);
      } catch (const Error& error) {
        reply_error({}, error.kind(), error.what());
        closing_ = true;
        return;
      }
    }
    if (bytes.size() < front_frame_bytes()) return;
    handle(*front_, bytes.subspan(kFrameHeaderBytes, front_->length), now);
    if (pending_) return;  // the held request keeps its bytes
    finish_front();
  }
}

void Session::handle(const FrameHeader& header, std::span<const std::byte> body, Time now) {
  try {
    dispatch(header, body, now);
  } catch (const Error& error) {
    reply_error(header, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    reply_error(header, ErrorKind::kSystem, "the server is out of memory; the request is dropped");
  }
}

void Session::try_pending(Time now) {
  const auto attempt = [this](const auto& request) {
    if constexpr (std::is_same_v<std::decay_t<decltype(request)>, InsertRequest>) {
      return try_insert(request);
    } else {
      return try_sample(request);
    }
  };
  try {
    if (!std::visit(attempt, pending_->request)) {
      if (now < pending_->deadline) return;
      reply_nothing(pending_->header);
    }
  } catch (const Error& error) {
    reply_error(pending_->header, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    reply_error(pending_->header, ErrorKind::kSystem, "the server is out of memory; the request is dropped");
  }
  pending_.reset();
}

void Session::reply_head(const FrameHeader& request, std::span<const std::byte> body, std::uint64_t later_bytes) {
  const std::uint64_t length = body.size() + later_bytes;
  if (length > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "reply of " + std::to_string(length) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; it is not sent");
  }
  const auto type = static_cast<std::uint8_t>(request.type | kReplyBit);
  const auto header = encode_header({type, kOk, request.request, length});
  std::vector<std::byte> bytes;
  bytes.reserve(header.size() + body.size());
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  output_.push(std::move(bytes));
}

void Session::reply(const FrameHeader& request, std::span<const std::byte> body) { reply_head(request, body, 0); }

void Session::reply_nothing(const FrameHeader& request) {
  const auto header =
      encode_header({static_cast<std::uint8_t>(request.type | kReplyBit), kNothing, request.request, 0});
  output_.push(std::vector<std::byte>(header.begin(), header.end()));
}

void Session::reply_error(const FrameHeader& request, ErrorKind kind, std::string_view message) {
  const auto body = as_bytes(message);
  const auto header = encode_header({static_cast<std::uint8_t>(request.type | kReplyBit),
                                     static_cast<std::uint8_t>(kind), request.request, body.size()});
  std::vector<std::byte> bytes(header.begin(), header.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  output_.push(std::move(bytes));
}

}  // namespace headrace
