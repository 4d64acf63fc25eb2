#include "wire/session.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "wire/session_memory.h"
#include "wire/session_work.h"

namespace headrace {
namespace {

constexpr std::chrono::seconds::rep kLeastBytesPerSecond = 64 << 10;  // else a slow peer could hold memory forever

constexpr std::string_view kClosing = "; the connection is closed";  // as decode_header() ends its messages

std::string last_words(std::string message) { return message.append(kClosing); }

std::string seconds(std::chrono::seconds wait) { return std::to_string(wait.count()) + " s"; }

// A deadline after `count` more bytes: never more than `wait` from now.
Session::Time moved_on(Session::Time deadline, std::size_t count, Session::Time now, std::chrono::seconds wait) {
  const std::chrono::duration<double> earned(static_cast<double>(count) / kLeastBytesPerSecond);
  return std::min(deadline + std::chrono::duration_cast<Session::Time::duration>(earned), now + wait);
}

bool samples(MessageType type) {
  return type == MessageType::kSample || type == MessageType::kShare || type == MessageType::kSampleShared;
}

bool is_of_shards(MessageType type) { return type >= MessageType::kOpenShard && type <= MessageType::kShareShard; }

bool is_slow(const FrameHeader& header) {
  const auto type = static_cast<MessageType>(header.type);
  if (type == MessageType::kInsert) return header.length > kQuickInsertBytes;
  return type == MessageType::kOpenTable || type == MessageType::kOpenShard || type == MessageType::kLoadShard ||
         type == MessageType::kDrop || type == MessageType::kClaim;
}

}  // namespace

Session::Session(Server& server, SessionOptions options, Time now)
    : server_(server),
      limits_(options.limits),
      token_(options.token),
      nonce_(options.nonce),
      make_region_(std::move(options.make_region)),
      sees_end_(options.sees_end),
      yields_(options.yields),
      meter_(server.add_meter(std::move(options.peer))),
      input_(server.budget()),
      output_(server.budget()),
      proven_(options.token == nullptr || !options.token_required),
      now_(now),
      connected_(now),
      input_deadline_(now + limits_.frame_wait),
      output_deadline_(now + limits_.output_wait),
      request_since_(now) {}

Session::~Session() = default;

bool Session::wants_input() const {
  if (closing_ || pending_ || yielded_ || gathered_) return false;
  const bool batch_on_its_way = block_ && block_.use_count() > 1;
  return !batch_on_its_way && output_.bytes() <= limits_.max_queued_bytes &&
         output_.uncounted_bytes() <= kUncountedReplyBytes;
}

std::span<std::byte> Session::prepare() { return input_.space(); }

void Session::commit(std::size_t count, Time now) {
  now_ = now;
  if (input_.bytes().empty()) input_deadline_ = now + limits_.frame_wait;
  input_deadline_ = moved_on(input_deadline_, count, now, limits_.frame_wait);
  meter_->received_bytes.fetch_add(count);
  input_.commit(count);
  handle_frames();
}

void Session::consumed(std::size_t count, Time now) {
  now_ = now;
  if (!wants_input()) input_deadline_ = now + limits_.frame_wait;
  meter_->sent_bytes.fetch_add(count);
  output_.pop(count);
  if (count < output_due_) {
    output_deadline_ = moved_on(output_deadline_, count, now, limits_.output_wait);
    output_due_ -= count;
  } else {  // though more may be there since: of a peer that goes on sending requests, always
    begin_output();
  }
  gathered_ = false;
  handle_frames();
}

bool Session::resume(Time now) {
  now_ = now;
  if (std::exchange(yielded_, false)) {
    spent_ = 0;
    input_deadline_ = now + limits_.frame_wait;
  }
  if (pending_) {
    try_pending();
    if (pending_) return !blocked();
    finish_front();
  }
  handle_frames();
  return !blocked();
}

void Session::expire(Time now) {
  now_ = now;
  if (output_.bytes() > 0 && now >= output_deadline_) closing_ = broken_ = true;
  if (closing_) return;
  if (!proven_ && now - connected_ >= limits_.proof_wait) {
    give_up({}, ErrorKind::kSystem, last_words("token: not shown within " + seconds(limits_.proof_wait)));
  } else if (wants_input() && !input_.bytes().empty() && now >= input_deadline_) {
    give_up({}, ErrorKind::kSystem,
            last_words("frame: too little of it arrived within " + seconds(limits_.frame_wait)));
  } else if (!pending_ && output_.bytes() == 0 && idle_too_long()) {
    closing_ = true;
  }
  release_memory();
}

// What an idle peer would keep from others. A blob that is on its way in parts has as long as a frame, and the time in
// which its next part arrives.
void Session::release_memory() {
  const auto idle = now_ - request_since_;
  if (pending_ || output_.bytes() > 0 || idle < limits_.memory_wait) return;
  input_.release();
  block_.reset();
  if (idle < limits_.frame_wait || !input_.bytes().empty()) return;
  publication_.reset();
  fetched_.reset();
}

// A peer that connects and then requests nothing takes a place from others.
bool Session::idle_too_long() const {
  const bool asks = meter_->requests.load() > 0 || !input_.bytes().empty();
  if (asks && sees_end_) return false;
  return now_ - request_since_ >= (asks ? limits_.idle_wait : std::min(limits_.idle_wait, limits_.proof_wait));
}

void Session::excuse(Time::duration lost) {
  connected_ += lost;
  input_deadline_ += lost;
  output_deadline_ += lost;
  request_since_ += lost;
}

std::size_t Session::front_frame_bytes() const { return kFrameHeaderBytes + (front_ ? front_->length : 0); }

void Session::finish_front() {
  input_.pop(front_frame_bytes());
  front_.reset();
  input_deadline_ = now_ + limits_.frame_wait;
  if (place_ != Place::kSlow) return;
  yielded_ = true;
  place_ = home_;
}

void Session::handle_frames() {
  while (wants_input()) {
    const auto bytes = input_.bytes();
    if (!front_ && bytes.size() >= kFrameHeaderBytes && !decode_front(bytes.first<kFrameHeaderBytes>())) return;
    if (!front_ || bytes.size() < front_frame_bytes()) return make_room();
    if (yields_ && (spent_ >= kUnitsPerTurn || yields_before(*front_))) {
      yielded_ = true;
      return;
    }
    handle(*front_, bytes.subspan(kFrameHeaderBytes, front_->length));
    if (pending_) return;  // the request keeps its bytes
    finish_front();
  }
}

// Whether a request must be handled by another thread than the session's.
bool Session::yields_before(const FrameHeader& header) {
  if (!proven_) return false;
  const auto type = static_cast<MessageType>(header.type);
  if (samples(type)) home_ = Place::kSampling;
  if (is_of_shards(type)) home_ = Place::kShards;
  const Place before = std::exchange(place_, is_slow(header) ? Place::kSlow : home_);
  return place_ != before;
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

void Session::run_out_of_memory(const FrameHeader& request) {
  if (output_.bytes() < announced_) {  // in the middle of a reply: the peer would take an error for the rest of it
    closing_ = broken_ = true;
  } else {
    reply_error(request, ErrorKind::kSystem, "the server is out of memory; the request is dropped");
  }
}

void Session::handle(const FrameHeader& header, std::span<const std::byte> body) {
  meter_->requests.fetch_add(1);
  request_since_ = now_;
  announced_ = 0;
  spent_ += 1 + body.size() / kUnitBytes;
  try {
    dispatch(header, body);
  } catch (const Error& error) {
    if (!proven_) return give_up(header, error.kind(), last_words(error.what()));
    reply_error(header, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    run_out_of_memory(header);
  }
}

void Session::reply_head(const FrameHeader& request, std::span<const std::byte> body, std::uint64_t later_bytes) {
  const std::uint64_t length = body.size() + later_bytes;
  if (length > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "reply of " + std::to_string(length) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; it is not sent");
  }
  push(encode_reply(request, kOk, body, later_bytes));
  announced_ = output_.bytes() + later_bytes;
}

void Session::reply(const FrameHeader& request, std::span<const std::byte> body) { reply_head(request, body, 0); }

void Session::reply_nothing(const FrameHeader& request) { push(encode_reply(request, kNothing, {}, 0)); }

void Session::reply_error(const FrameHeader& request, ErrorKind kind, std::string_view message) {
  push(encode_reply(request, static_cast<std::uint8_t>(kind), as_bytes(message), 0));
}

void Session::push(std::span<const std::byte> frame) {
  const bool first = output_.bytes() == 0;
  output_.push(frame);
  if (first) begin_output();
}

void Session::begin_output() {
  output_deadline_ = now_ + limits_.output_wait;
  output_due_ = output_.bytes();
}

void Session::push_region(const FrameHeader& request, std::uint64_t stride,
                          const std::shared_ptr<SharedRegion>& region) {
  const bool first = output_.bytes() == 0;
  output_.push(encode_reply(request, kOk, std::as_bytes(std::span(&stride, 1)), 0), region, region->descriptor());
  if (first) begin_output();
}

}  // namespace headrace
