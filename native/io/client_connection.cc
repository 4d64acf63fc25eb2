#include "io/client_connection.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/entropy.h"

namespace headrace {

ClientConnection::ClientConnection(std::unique_ptr<Transport> transport, const ClientOptions& options,
                                   Interrupt interrupt)
    : address_(options.address),
      token_(options.token),
      limits_(options.limits),
      request_timeout_(options.request_timeout),
      stream_(std::move(transport), *options.network, std::move(interrupt)) {}

void ClientConnection::shake_hands(std::chrono::milliseconds timeout) {
  stream_.set_timeout(std::min(timeout, request_timeout_));
  Nonce ours;
  fill_with_entropy(ours);
  const auto reply = request(MessageType::kHello, "", ours);
  const auto body = receive_body(reply);
  Nonce theirs;
  auto need = TokenNeed::kNone;
  try {
    BodyReader reader(body);
    instance_ = reader.number<std::uint64_t>("instance");
    const auto token = reader.number<std::uint8_t>("token");
    if (token > static_cast<std::uint8_t>(TokenNeed::kOptional)) {
      throw Error(ErrorKind::kMalformed, "token is " + std::to_string(token) + ": required 0, 1 or 2");
    }
    need = static_cast<TokenNeed>(token);
    std::ranges::copy(reader.bytes(theirs.size(), "nonce"), theirs.begin());
    reader.end();
  } catch (const Error& error) {
    throw_malformed(error.what());
  }
  if (token_ && need == TokenNeed::kNone) {
    refuse(
        "a token was given, but the server has none: it may be the wrong server; omit the token to use it all the "
        "same");
  }
  if (!token_ && need == TokenNeed::kRequired) {
    refuse("the server requires a token, and none was given; pass --token-file");
  }
  if (token_) authenticate(theirs, ours);
  stream_.set_timeout(request_timeout_);
  greeted_ = true;
}

void ClientConnection::authenticate(const Nonce& server, const Nonce& client) {
  const auto reply = request(MessageType::kAuthenticate, "", token_->client_proof(server, client));
  Proof proof;
  if (reply.status != kOk || reply.length != proof.size()) throw_malformed("the reply is not a proof");
  const std::span<std::byte> part = proof;
  stream_.receive(std::span(&part, 1));
  if (!equal_in_constant_time(proof, token_->server_proof(client, server))) {
    refuse("the server does not know the token; nothing more is sent to it");
  }
}

void ClientConnection::send(MessageType type, std::string_view name, std::span<const std::byte> payload,
                            std::span<const std::span<const std::byte>> trailing) {
  std::uint64_t trailing_bytes = 0;
  for (const auto part : trailing) trailing_bytes += part.size();
  if (name.size() > limits_.max_name_bytes) {
    throw Error(ErrorKind::kRefused, "name of " + std::to_string(name.size()) + " bytes: at most " +
                                         std::to_string(limits_.max_name_bytes) + "; nothing is sent");
  }
  const auto head = encode_request(type, sent_ + 1, name, payload, trailing_bytes);
  if (head.size() - kFrameHeaderBytes + trailing_bytes > limits_.max_frame_bytes) {
    throw Error(ErrorKind::kRefused, "request of " + std::to_string(trailing_bytes) + " bytes: at most " +
                                         std::to_string(limits_.max_frame_bytes) + "; nothing is sent");
  }
  std::array<std::span<const std::byte>, Stream::kMaxParts> parts = {head};
  std::ranges::copy(trailing, parts.begin() + 1);
  ++sent_;
  stream_.send(std::span(parts).first(1 + trailing.size()));
}

void ClientConnection::post(MessageType type, std::string_view name, std::span<const std::byte> payload,
                            std::span<const std::span<const std::byte>> trailing) {
  if (posted_.size() >= kMostPosted) receive_posted(kMostPosted / 2);
  throw_posted_error();
  send(type, name, payload, trailing);
  posted_.push_back(type);
}

void ClientConnection::settle() {
  receive_posted(0);
  throw_posted_error();
}

void ClientConnection::receive_posted(std::size_t most_left) {
  while (posted_.size() > most_left) {
    const auto type = posted_.front();
    posted_.pop_front();
    try {
      receive_body(receive_next(type, {}));
    } catch (const ConnectionLost&) {
      throw;
    } catch (const Error& error) {
      if (!is_open()) throw;
      if (!posted_error_) posted_error_ = error;
    }
  }
}

void ClientConnection::throw_posted_error() {
  if (posted_error_) throw *std::exchange(posted_error_, std::nullopt);
}

FrameHeader ClientConnection::receive(MessageType type, std::chrono::milliseconds wait) {
  receive_posted(0);
  return receive_next(type, wait);
}

FrameHeader ClientConnection::receive_next(MessageType type, std::chrono::milliseconds wait) {
  std::array<std::byte, kFrameHeaderBytes> bytes;
  const std::span<std::byte> part = bytes;
  stream_.receive(std::span(&part, 1), wait);
  FrameHeader reply;
  try {
    reply = decode_header(bytes, limits_);
  } catch (const Error& error) {
    throw_malformed(error.what());
  }
  if (!greeted_ && reply.length > limits_.max_unproven_frame_bytes) {
    throw_malformed("the reply is of " + std::to_string(reply.length) + " bytes: at most " +
                    std::to_string(limits_.max_unproven_frame_bytes) + " before the server has authenticated itself");
  }
  // What the server says of the connection itself, before it closes it, belongs to no request.
  const bool last_words = reply.type == kReplyBit && reply.request == 0 && reply.status != kOk;
  if (!last_words) {
    if (answered_ == sent_ || reply.request != ++answered_ ||
        reply.type != (static_cast<std::uint8_t>(type) | kReplyBit)) {
      throw_malformed("the reply belongs to another request");
    }
    if (reply.status == kOk || reply.status == kNothing) return reply;
  }
  if (reply.status > static_cast<std::uint8_t>(kLastErrorKind)) throw_malformed("the reply's status is unknown");
  const auto kind = static_cast<ErrorKind>(reply.status);
  std::string message(as_text(receive_body(reply)));
  std::ranges::replace_if(message, [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }, ' ');  // one line
  if (last_words && kind == ErrorKind::kSystem) throw_lost(message);
  if (last_words) shut();
  throw Error(kind, message);
}

std::vector<std::byte> ClientConnection::receive_body(const FrameHeader& reply) {
  std::vector<std::byte> body(reply.length);
  const std::span<std::byte> part = body;
  stream_.receive(std::span(&part, 1));
  return body;
}

void ClientConnection::throw_malformed(const std::string& what) {
  shut();
  throw Error(ErrorKind::kMalformed, "address '" + address_ + "': " + what + "; the connection is closed");
}

void ClientConnection::refuse(const std::string& what) {
  shut();
  throw Error(ErrorKind::kRefused, "address '" + address_ + "': " + what);
}

}  // namespace headrace
