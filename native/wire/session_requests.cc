// What a session does for each type of request; those that sample or may be held are in session_sampling.cc,
// those of shards in session_shards.cc.
#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/session.h"
#include "wire/session_work.h"
#include "wire/stats_json.h"

namespace headrace {
namespace {

constexpr std::size_t kKeyBytes = sizeof(std::uint64_t) + sizeof(float);  // of one priority update
constexpr auto kFirstType = static_cast<std::uint8_t>(MessageType::kSignature);
constexpr auto kLastType = static_cast<std::uint8_t>(MessageType::kShareShard);

bool is_handshake(MessageType type) { return type == MessageType::kHello || type == MessageType::kAuthenticate; }

template <std::size_t N>
std::array<std::byte, N> read_array(BodyReader& body, const char* field) {
  std::array<std::byte, N> array;
  const auto bytes = body.bytes(N, field);
  std::copy(bytes.begin(), bytes.end(), array.begin());
  return array;
}

}  // namespace

void Session::dispatch(const FrameHeader& header, std::span<const std::byte> bytes) {
  if (header.status != kOk) throw Error(ErrorKind::kMalformed, "status of a request: required 0");
  const auto type = static_cast<MessageType>(header.type);
  if (!proven_ && !is_handshake(type)) {
    throw Error(ErrorKind::kRefused, "token: this server requires one, and none was shown; the request is dropped");
  }
  if (header.type < kFirstType || header.type > kLastType) {
    throw Error(ErrorKind::kInvalid, "message type " + std::to_string(header.type) + " is unknown");
  }
  BodyReader body(bytes);
  const auto name = body.name(limits_);
  const bool unnamed = is_handshake(type) || type == MessageType::kStats;
  if (name.empty() != unnamed) {
    throw Error(ErrorKind::kRefused,
                unnamed ? "name: required empty for a request of this type" : "name: at least 1 byte required");
  }
  switch (type) {
    case MessageType::kHello:
      return hello(header, body);
    case MessageType::kAuthenticate:
      return authenticate(header, body);
    case MessageType::kStats:
      body.end();
      return stats(header);
    default:
      return dispatch_named(header, name, body);
  }
}

void Session::dispatch_named(const FrameHeader& header, const std::string& name, BodyReader& body) {
  switch (static_cast<MessageType>(header.type)) {
    case MessageType::kSignature:
      body.end();
      return reply(header, as_bytes(server_.table(name)->options().signature.encode()));
    case MessageType::kInsert:
      return begin_insert(header, name, body);
    case MessageType::kSample:
      return begin_sample(header, name, body);
    case MessageType::kUpdatePriorities:
      return update_priorities(header, name, body);
    case MessageType::kPublish:
      return publish(header, name, body);
    case MessageType::kFetch:
      return fetch(header, name, body);
    case MessageType::kPut:
      return put(header, name, body);
    case MessageType::kDrain:
      return drain(header, name, body);
    case MessageType::kOpenTable:
      return open_table(header, name, body);
    case MessageType::kSetState:
      return set_state(header, name, body);
    case MessageType::kDrop:
      body.end();
      return reply_number(header, std::uint64_t{server_.drop(name)});
    case MessageType::kClaim:
      return claim(header, name, body);
    case MessageType::kShare:
      return share(header, name, body);
    case MessageType::kSampleShared:
      return begin_sample_shared(header, name, body);
    case MessageType::kOpenShard:
      return open_shard(header, name, body);
    case MessageType::kPushGradient:
      return push_gradient(header, name, body);
    case MessageType::kFetchShard:
      return fetch_shard(header, name, body);
    case MessageType::kShardState:
      body.end();
      return shard_state(header, name);
    case MessageType::kLoadShard:
      return load_shard(header, name, body);
    case MessageType::kShareShard:
      body.end();
      return share_shard(header, name);
    case MessageType::kStats:
    case MessageType::kHello:
    case MessageType::kAuthenticate:
      return;  // dispatch() has them: they have no name
  }
}

void Session::hello(const FrameHeader& header, BodyReader& body) {
  const auto nonce = read_array<kNonceBytes>(body, "nonce");
  body.end();
  if (client_nonce_) throw Error(ErrorKind::kInvalid, "hello: once for each connection");
  client_nonce_ = nonce;
  std::vector<std::byte> answer;
  append_number(answer, server_.instance());
  const auto need = token_ == nullptr ? TokenNeed::kNone : proven_ ? TokenNeed::kOptional : TokenNeed::kRequired;
  append_number(answer, static_cast<std::uint8_t>(need));
  answer.insert(answer.end(), nonce_.begin(), nonce_.end());
  reply(header, answer);
}

void Session::authenticate(const FrameHeader& header, BodyReader& body) {
  const auto proof = read_array<kProofBytes>(body, "proof");
  body.end();
  if (token_ == nullptr) throw Error(ErrorKind::kInvalid, "proof: this server has no token");
  if (!client_nonce_) throw Error(ErrorKind::kInvalid, "proof: a hello is required before it");
  if (authenticated_) throw Error(ErrorKind::kInvalid, "proof: once for each connection");
  if (!equal_in_constant_time(proof, token_->client_proof(nonce_, *client_nonce_))) {
    throw Error(ErrorKind::kRefused, "token: wrong; this server has another one");
  }
  proven_ = authenticated_ = true;
  reply(header, token_->server_proof(*client_nonce_, nonce_));
}

void Session::update_priorities(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto payload = body.rest();
  if (payload.size() % kKeyBytes != 0) {
    throw Error(ErrorKind::kMalformed, "keys and priorities of " + std::to_string(payload.size()) +
                                           " bytes: a multiple of " + std::to_string(kKeyBytes) + " required");
  }
  const std::size_t count = payload.size() / kKeyBytes;
  if (count > limits_.max_batch) {
    throw Error(ErrorKind::kRefused, "priorities of " + std::to_string(count) + " transitions: at most " +
                                         std::to_string(limits_.max_batch) + "; none is applied");
  }
  std::vector<float> priorities(count);
  const auto given = payload.subspan(count * sizeof(std::uint64_t));
  if (count > 0) std::memcpy(priorities.data(), given.data(), given.size());
  Table::check_priorities(priorities);
  spent_ += count / kUpdatesPerUnit;
  pending_ = Pending{header, server_.table(name), never(), UpdateRequest{payload, count}};
  try_pending();
}

void Session::publish(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto version = body.number<std::uint64_t>("version");
  const auto size = body.number<std::uint64_t>("size");
  const auto offset = body.number<std::uint64_t>("offset");
  const auto part = body.rest();
  if (part.size() > limits_.max_part_bytes) {
    throw Error(ErrorKind::kRefused, "part of " + std::to_string(part.size()) + " bytes: at most " +
                                         std::to_string(limits_.max_part_bytes) + "; nothing is published");
  }
  auto publication = std::exchange(publication_, std::nullopt);  // where a part is refused, so are those before it
  if (offset == 0) publication = server_.parameters().begin(name, version, size);
  if (!publication || !publication->continues(name, version, size, offset)) {
    throw Error(ErrorKind::kInvalid, "offset " + std::to_string(offset) +
                                         ": required 0, or the number of bytes that have arrived over this connection "
                                         "of that name, version and size; nothing is published");
  }
  const auto published = publication->add(part);
  if (published) return reply_number(header, *published);
  publication_ = std::move(publication);
  reply_nothing(header);
}

void Session::fetch(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto newer_than = body.number<std::uint64_t>("newer_than");
  const auto offset = body.number<std::uint64_t>("offset");
  body.end();
  auto fetched = std::exchange(fetched_, std::nullopt);
  if (offset == 0) {
    auto blob = server_.parameters().fetch(name, newer_than);
    if (!blob) return reply_nothing(header);
    fetched = Fetched{name, std::move(blob)};
  } else if (!fetched || fetched->name != name || offset >= fetched->blob->bytes.size()) {
    throw Error(ErrorKind::kInvalid, "offset " + std::to_string(offset) +
                                         ": required 0, or below the size of the blob of which this connection has "
                                         "fetched the first part; nothing is sent");
  }
  const auto& blob = fetched->blob;
  const std::span<const std::byte> rest = std::span(blob->bytes).subspan(offset);
  const auto part = rest.first(std::min<std::uint64_t>(rest.size(), limits_.max_part_bytes));
  const std::array<std::uint64_t, 2> head = {blob->version, blob->bytes.size()};
  reply_head(header, std::as_bytes(std::span(head)), part.size());
  push_body(blob, part);
  if (part.size() < rest.size()) fetched_ = std::move(fetched);
}

void Session::put(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto writer = body.number<std::uint64_t>("writer");
  const auto sequence = body.number<std::uint64_t>("sequence");
  const auto message = body.rest();
  server_.mailbox(name)->put(message, writer, sequence);
  reply(header, {});
}

void Session::drain(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto epoch = body.number<std::uint64_t>("epoch");
  const auto seen = body.number<std::uint64_t>("seen");
  body.end();
  const auto mailbox = server_.find_mailbox(name);
  if (!mailbox) return reply(header, std::array<std::byte, 2 * sizeof(std::uint64_t)>{});
  // If memory is short, messages are still sent in small answers, which frees their memory.
  const bool ample = server_.budget().limit() - server_.budget().used() >= Mailbox::kMaxTakenBytes;
  const auto taken = mailbox->take(epoch, seen, ample ? Mailbox::kMaxTakenBytes : kUncountedReplyBytes / 2);
  std::size_t size = 2 * sizeof(std::uint64_t);
  for (const auto& message : taken.messages) size += sizeof(std::uint32_t) + message.size();
  auto share = share_of_reply(size);
  std::vector<std::byte> answer;
  answer.reserve(size);
  append_number(answer, taken.epoch);
  append_number(answer, taken.last);
  for (const auto& message : taken.messages) {
    append_number(answer, static_cast<std::uint32_t>(message.size()));
    answer.insert(answer.end(), message.begin(), message.end());
  }
  reply_large(header, std::move(answer), std::move(share));
}

void Session::stats(const FrameHeader& header) {
  const auto text = stats_json(server_);
  auto share = share_of_reply(text.size());
  const auto bytes = as_bytes(text);
  reply_large(header, {bytes.begin(), bytes.end()}, std::move(share));
}

MemoryBudget::Share Session::share_of_reply(std::size_t bytes) {
  if (auto share = server_.budget().try_take(bytes)) return std::move(*share);
  if (output_.bytes() + bytes <= kUncountedReplyBytes) return {};
  return server_.budget().take(bytes, "reply");
}

void Session::reply_large(const FrameHeader& request, std::vector<std::byte> body, MemoryBudget::Share share) {
  struct Held {
    std::vector<std::byte> body;
    MemoryBudget::Share share;
  };
  const auto held = std::make_shared<const Held>(Held{std::move(body), std::move(share)});
  reply_head(request, {}, held->body.size());
  push_body(held, held->body);
}

// The rest of a reply, from where it lies if it is large.
void Session::push_body(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
  if (bytes.size() < kCopiedBytes) return output_.push(bytes);
  output_.push(std::move(owner), bytes);
}

void Session::open_table(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto fresh = body.number<std::uint8_t>("fresh");
  if (fresh > 1) throw Error(ErrorKind::kMalformed, "fresh " + std::to_string(fresh) + ": required 0 or 1");
  const auto options = TableOptions::decode(as_text(body.rest()));
  const auto table = server_.open_table(name, options, fresh == 1);
  fill(name, table);
  reply_number(header, table->size());
}

void Session::set_state(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto state = body.number<std::uint8_t>("state");
  body.end();
  if (state > static_cast<std::uint8_t>(TableState::kClosed)) {
    throw Error(ErrorKind::kInvalid, "state " + std::to_string(state) + ": required 0, 1 or 2");
  }
  server_.set_state(name, static_cast<TableState>(state));
  reply(header, {});
}

void Session::claim(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto owner = body.number<std::uint64_t>("owner");
  const auto run = body.number<std::uint64_t>("run");
  const auto keep = std::chrono::milliseconds(body.number<std::int64_t>("keep"));
  body.end();
  if (claims_.size() >= limits_.max_claims && !claims_.contains(name)) {
    throw Error(ErrorKind::kRefused, "claims of one connection: at most " + std::to_string(limits_.max_claims) + "; '" +
                                         name + "' is not claimed");
  }
  claims_[name] = server_.claims().claim(name, owner, run, keep);
  reply(header, {});
}

}  // namespace headrace
