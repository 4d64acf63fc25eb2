// Requests of shards, and the memory that gradients and parameters are shared in.
#include <utility>

#include "core/shards.h"
#include "wire/session.h"
#include "wire/session_memory.h"

namespace headrace {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

GradientPlace read_place(BodyReader& body) {
  const auto place = body.number<std::uint8_t>("place");
  if (place <= static_cast<std::uint8_t>(GradientPlace::kNowhere)) return static_cast<GradientPlace>(place);
  throw Error(ErrorKind::kMalformed, "place " + std::to_string(place) + ": required 0, 1 or 2");
}

}  // namespace

std::shared_ptr<Shard> Session::shard(const std::string& name) {
  auto found = server_.shards().find(name);
  lane_ = found->lane();
  return found;
}

void Session::open_shard(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto fresh = body.number<std::uint8_t>("fresh");
  if (fresh > 1) throw Error(ErrorKind::kMalformed, "fresh " + std::to_string(fresh) + ": required 0 or 1");
  const auto length = body.number<std::uint32_t>("options length");
  const auto options = ShardOptions::decode(as_text(body.bytes(length, "options")));
  const auto opened = server_.shards().open(name, options, fresh == 1, body.rest());
  lane_ = opened->lane();
  reply_number(header, opened->version());
}

void Session::push_gradient(const FrameHeader& header, const std::string& name, BodyReader& body) {
  PushedGradient pushed;
  pushed.worker = body.number<std::uint64_t>("worker");
  pushed.sequence = body.number<std::uint64_t>("sequence");
  pushed.base_version = body.number<std::uint64_t>("base version");
  pushed.own_updates = body.number<std::uint64_t>("own updates");
  const auto place = read_place(body);
  const auto into = shard(name);
  PushResult result;
  switch (place) {
    case GradientPlace::kFrame:
      body.bytes(gradient_padding(name.size()), "padding");
      result = into->push(pushed, body.rest());
      input_.keep();
      break;
    case GradientPlace::kShared:
      body.end();
      result = into->push(pushed, shared_of(name, into->bytes()).gradient(into->bytes()));
      break;
    case GradientPlace::kNowhere:
      body.end();
      result = into->refuse(pushed);
      break;
  }
  std::vector<std::byte> answer;
  append_number(answer, result.version);
  append_number(answer, result.staleness);
  append_number(answer, static_cast<std::uint8_t>(result.verdict));
  reply(header, answer);
}

void Session::fetch_shard(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto worker = body.number<std::uint64_t>("worker");
  const auto newer_than = body.number<std::int64_t>("newer_than");
  const auto place = read_place(body);
  body.end();
  const auto from = shard(name);
  if (place == GradientPlace::kNowhere) throw Error(ErrorKind::kMalformed, "place 2: required 0 or 1 for a fetch");
  if (place == GradientPlace::kShared) {
    const auto version = from->fetch(worker, newer_than, shared_of(name, from->bytes()).parameters(from->bytes()));
    return version ? reply_number(header, *version) : reply_nothing(header);
  }
  const auto block = block_of(from->bytes());
  const auto to = std::span(block->memory.data(), from->bytes());
  const auto version = from->fetch(worker, newer_than, to);
  if (!version) return reply_nothing(header);
  reply_head(header, std::as_bytes(std::span(&*version, 1)), to.size());
  output_.push(block, to);
}

void Session::shard_state(const FrameHeader& header, const std::string& name) {
  struct Held {
    MemoryBudget::Share share;
    HugeArray<std::byte> bytes;
  };
  const auto from = shard(name);
  const auto held = std::make_shared<Held>(
      Held{server_.budget().take(from->state_bytes(), "reply"), HugeArray<std::byte>(from->state_bytes())});
  const auto to = std::span(held->bytes.data(), held->bytes.size());
  const auto version = from->state(to);
  reply_head(header, std::as_bytes(std::span(&version, 1)), to.size());
  output_.push(held, to);
}

void Session::load_shard(const FrameHeader& header, const std::string& name, BodyReader& body) {
  const auto steps = body.number<std::uint64_t>("steps");
  lane_ = server_.shards().find(name)->lane();
  server_.shards().load(name, steps, body.rest());
  reply(header, {});
}

void Session::share_shard(const FrameHeader& header, const std::string& name) {
  if (!make_region_) throw Error(ErrorKind::kRefused, "shared memory: only over a Unix socket; push without it");
  if (shared_shard_)
    throw Error(ErrorKind::kRefused, "shared memory: one for each connection; open another connection");
  const auto of = shard(name);
  const std::uint64_t stride = (of->bytes() + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (2 * stride > limits_.max_shared_bytes) {
    throw Error(ErrorKind::kRefused, "shared memory of " + std::to_string(2 * stride) + " bytes: at most " +
                                         std::to_string(limits_.max_shared_bytes) + "; nothing is shared");
  }
  auto promised = server_.budget().take(2 * stride, "shared memory");
  auto region = make_region_(2 * stride);
  shared_shard_ =
      std::make_unique<SharedShard>(SharedShard{name, of->bytes(), stride, std::move(promised), std::move(region)});
  push_region(header, stride, shared_shard_->region);
}

// A shard of that name may have been reopened with another size.
Session::SharedShard& Session::shared_of(const std::string& name, std::size_t bytes) {
  if (shared_shard_ && shared_shard_->name == name && shared_shard_->bytes == bytes) return *shared_shard_;
  throw Error(ErrorKind::kRefused, "shared memory: none for shard \"" + name + "\" of " + std::to_string(bytes) +
                                       " bytes on this connection; share it first");
}

}  // namespace headrace
