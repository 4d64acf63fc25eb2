#include "io/sharded_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "core/entropy.h"
#include "io/link.h"
#include "io/shared_memory.h"

namespace headrace {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

std::uint8_t as_number(GradientPlace place) { return static_cast<std::uint8_t>(place); }

Verdict read_verdict(BodyReader& body) {
  const auto verdict = body.number<std::uint8_t>("verdict");
  if (verdict <= static_cast<std::uint8_t>(Verdict::kRefused)) return static_cast<Verdict>(verdict);
  throw Error(ErrorKind::kMalformed, "verdict " + std::to_string(verdict) + ": required 0, 1 or 2");
}

}  // namespace

// One shard, its connection, and what this worker knows of it.
struct ShardedModel::Part {
  // `named`: errors say which server they are of.
  Part(ClientOptions options, bool named, std::string shard_name, std::size_t begin, std::size_t count, bool share)
      : name(std::move(shard_name)),
        begin(begin),
        count(count),
        prefix(named ? "address '" + options.address + "': " : ""),
        local(share && Address::parse(options.address).is_unix()),
        limits(options.limits),
        link(std::move(options), [this](ClientConnection&) {
          region.reset();  // that of the connection before
          asked = nullptr;
        }) {}

  std::size_t bytes() const { return count * sizeof(float); }
  std::byte* gradient() { return region->data(); }
  const std::byte* parameters() { return region->data() + stride; }
  Error named(const Error& error) const {
    const std::string what = error.what();
    return {error.kind(), what.starts_with(prefix) ? what : prefix + what};
  }
  GradientPlace place() const { return local ? GradientPlace::kShared : GradientPlace::kFrame; }

  // Makes the shared memory of this connection, if there is to be one.
  void share(ClientConnection& connection) {
    if (!local || region) return;
    stride = connection.receive_number<std::uint64_t>(connection.request(MessageType::kShareShard, name, {}));
    if (stride < bytes() || stride > limits.max_shared_bytes) {
      connection.throw_malformed("shared memory of " + std::to_string(stride) +
                                 " bytes a gradient: " + std::to_string(bytes()) + " required");
    }
    region.emplace(connection.take_descriptor(), 2 * stride, true);
  }

  const std::string name;
  const std::size_t begin, count;  // of the model's parameters
  const std::string prefix;        // of errors
  const bool local;
  const Limits limits;
  std::uint64_t stride = 0;
  std::optional<MappedRegion> region;
  ClientConnection* asked = nullptr;     // on which an answer is to come
  std::optional<std::uint64_t> fetched;  // version of the parameters that the caller has
  std::uint64_t own_updates = 0;         // since then
  Link link;                             // last: it greets with what is above
};

struct ShardedModel::Impl {
  std::size_t count = 0;
  std::optional<std::size_t> moments;     // of the optimizer, once it is open
  std::uint64_t worker = draw_entropy();  // the same after a reconnection
  std::uint64_t sequence = 0;             // of its gradients
  std::vector<std::unique_ptr<Part>> parts;

  // Asks all shards by `send(part, connection)`, and then takes their answers by `receive(part, connection)`. The first
  // error is thrown when all have answered.
  template <typename Send, typename Receive>
  void exchange(Send send, Receive receive) {
    std::exception_ptr failed;
    const auto attempt = [&](Part& part, auto call) {
      try {
        part.link.exchange(call);
        return;
      } catch (const Error& error) {
        if (!failed) failed = std::make_exception_ptr(part.named(error));
      } catch (...) {  // from the interrupt: the answers that are still to come are discarded
        forget_answers();
        throw;
      }
      part.asked = nullptr;
    };
    for (const auto& part : parts) {
      attempt(*part, [&](ClientConnection& connection) {
        send(*part, connection);
        part->asked = &connection;
      });
    }
    for (const auto& part : parts) {
      if (failed && part->asked == nullptr) continue;
      attempt(*part, [&](ClientConnection& connection) {
        if (part->asked == nullptr) send(*part, connection);  // it is another connection
        part->asked = nullptr;
        receive(*part, connection);
      });
    }
    if (failed) std::rethrow_exception(failed);
  }

  void forget_answers() {
    for (const auto& part : parts) {
      if (auto* connection = std::exchange(part->asked, nullptr)) connection->shut();
    }
  }

  // What a checkpoint needs of a shard, parameters and optimizer state, travels in one frame.
  void check_frames(std::size_t vectors_of_statistics) const {
    const std::size_t room = parts.front()->limits.max_frame_bytes - (std::size_t{64} << 10);  // the rest for names
    const std::size_t largest = room / ((1 + vectors_of_statistics) * sizeof(float));
    if (parts.front()->count <= largest) return;  // no other has more
    throw Error(ErrorKind::kInvalid, "shards: " + std::to_string(parts.size()) + " given for " + std::to_string(count) +
                                         " parameters, but a shard and its optimizer's " +
                                         std::to_string(vectors_of_statistics) +
                                         " vectors of optimizer state must fit into a frame; at least " +
                                         std::to_string((count + largest - 1) / largest) + " required");
  }

  void check_values(const char* what, std::size_t given, std::size_t required) const {
    if (given == required) return;
    throw Error(ErrorKind::kInvalid, std::string(what) + " of " + std::to_string(given) +
                                         " floats: " + std::to_string(required) + " required");
  }
};

ShardedModel::ShardedModel(const ClientOptions& options, const std::vector<std::string>& addresses,
                           const std::string& name, std::size_t count, std::size_t shards, bool share)
    : impl_(std::make_unique<Impl>()) {
  if (addresses.empty()) throw Error(ErrorKind::kInvalid, "addresses: at least 1 required");
  if (count == 0 || count > ShardOptions::kMaxSize) {
    throw Error(ErrorKind::kInvalid, "count: " + std::to_string(count) + " given, 1 to " +
                                         std::to_string(ShardOptions::kMaxSize) + " parameters required");
  }
  if (shards == 0 || shards > std::min(count, kMaxShards)) {
    throw Error(ErrorKind::kInvalid, "shards: " + std::to_string(shards) + " given, 1 to " +
                                         std::to_string(std::min(count, kMaxShards)) + " required");
  }
  impl_->count = count;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < shards; ++i) {
    const std::size_t size = count / shards + (i < count % shards ? 1 : 0);
    auto of_part = options;
    of_part.address = addresses[i % addresses.size()];
    impl_->parts.push_back(std::make_unique<Part>(std::move(of_part), addresses.size() > 1,
                                                  name + "/" + std::to_string(i), begin, size, share));
    begin += size;
  }
}

ShardedModel::~ShardedModel() = default;

std::size_t ShardedModel::count() const { return impl_->count; }

bool ShardedModel::shared() const {
  return std::ranges::all_of(impl_->parts, [](const auto& part) { return part->local; });
}

std::uint64_t ShardedModel::reconnections() const {
  std::uint64_t sum = 0;
  for (const auto& part : impl_->parts) sum += part->link.reconnections();
  return sum;
}

void ShardedModel::close() {
  for (const auto& part : impl_->parts) part->link.close();
}

std::uint64_t ShardedModel::open(const ShardOptions& options, std::span<const float> initial, bool fresh) {
  if (!initial.empty()) impl_->check_values("initial parameters", initial.size(), impl_->count);
  impl_->check_frames(options.optimizer.moments());
  impl_->moments = options.optimizer.moments();
  std::uint64_t version = 0;
  impl_->exchange(
      [&](Part& part, ClientConnection& connection) {
        auto of_part = options;
        of_part.size = part.count;
        const auto text = of_part.encode();
        std::vector<std::byte> payload;
        append_number(payload, static_cast<std::uint8_t>(fresh));
        append_number(payload, static_cast<std::uint32_t>(text.size()));
        const auto slice = initial.empty() ? initial : initial.subspan(part.begin, part.count);
        const std::array trailing = {as_bytes(text), std::as_bytes(slice)};
        connection.send(MessageType::kOpenShard, part.name, payload, trailing);
      },
      [&](Part& part, ClientConnection& connection) {
        const auto of_part = connection.receive_number<std::uint64_t>(connection.receive(MessageType::kOpenShard));
        if (&part == impl_->parts.front().get()) version = of_part;
        part.fetched.reset();
      });
  return version;
}

PushResult ShardedModel::push(std::span<const float> gradient) {
  impl_->check_values("gradient", gradient.size(), impl_->count);
  for (const auto& part : impl_->parts) {
    if (!part->fetched) throw Error(ErrorKind::kInvalid, "gradient: parameters must be fetched before the first push");
  }
  // One shard's server checks for itself; of several, all must be told.
  const bool applicable = impl_->parts.size() == 1 || is_gradient(gradient);
  const std::uint64_t sequence = ++impl_->sequence;
  PushResult worst;
  impl_->exchange(
      [&](Part& part, ClientConnection& connection) {
        const auto place = applicable ? part.place() : GradientPlace::kNowhere;
        const auto slice = std::as_bytes(gradient.subspan(part.begin, part.count));
        if (place == GradientPlace::kShared) {
          part.share(connection);
          std::memcpy(part.gradient(), slice.data(), slice.size());
        }
        std::vector<std::byte> payload;
        for (const std::uint64_t number : {impl_->worker, sequence, *part.fetched, part.own_updates}) {
          append_number(payload, number);
        }
        append_number(payload, as_number(place));
        if (place == GradientPlace::kFrame) payload.resize(payload.size() + gradient_padding(part.name.size()));
        const std::span<const std::span<const std::byte>> in_frame(&slice, place == GradientPlace::kFrame ? 1 : 0);
        connection.send(MessageType::kPushGradient, part.name, payload, in_frame);
      },
      [&](Part& part, ClientConnection& connection) {
        const auto body = connection.receive_body(connection.receive(MessageType::kPushGradient));
        BodyReader reader(body);
        PushResult result;
        result.version = reader.number<std::uint64_t>("version");
        result.staleness = reader.number<std::uint64_t>("staleness");
        result.verdict = read_verdict(reader);
        reader.end();
        if (result.verdict == Verdict::kAccepted) ++part.own_updates;
        if (&part == impl_->parts.front().get()) worst.version = result.version;
        worst.staleness = std::max(worst.staleness, result.staleness);
        worst.verdict = std::max(worst.verdict, result.verdict);
      });
  return worst;
}

std::optional<std::uint64_t> ShardedModel::fetch(std::span<float> parameters) {
  impl_->check_values("room for parameters", parameters.size(), impl_->count);
  bool newer = false;
  impl_->exchange(
      [&](Part& part, ClientConnection& connection) {
        part.share(connection);
        std::vector<std::byte> payload;
        append_number(payload, impl_->worker);
        append_number(payload, part.fetched ? static_cast<std::int64_t>(*part.fetched) : std::int64_t{-1});
        append_number(payload, as_number(part.place()));
        connection.send(MessageType::kFetchShard, part.name, payload);
      },
      [&](Part& part, ClientConnection& connection) {
        const auto reply = connection.receive(MessageType::kFetchShard);
        if (reply.status == kNothing) return;
        const auto slice = std::as_writable_bytes(parameters.subspan(part.begin, part.count));
        std::uint64_t version = 0;
        if (part.place() == GradientPlace::kShared) {
          version = connection.receive_number<std::uint64_t>(reply);
          std::memcpy(slice.data(), part.parameters(), slice.size());
        } else {
          if (reply.length != sizeof(version) + slice.size()) {
            connection.throw_malformed("the reply is not a shard's parameters");
          }
          const std::array<std::span<std::byte>, 2> into = {std::as_writable_bytes(std::span(&version, 1)), slice};
          connection.receive_body(into);
        }
        part.fetched = version;
        part.own_updates = 0;
        newer = true;
      });
  if (!newer) return std::nullopt;
  return impl_->parts.front()->fetched;
}

std::size_t ShardedModel::vectors() const {
  if (impl_->moments) return 1 + *impl_->moments;
  throw Error(ErrorKind::kInvalid, "state: the model must be opened first");
}

std::uint64_t ShardedModel::state(std::span<float> values) {
  const std::size_t vectors = this->vectors();
  impl_->check_values("room for a model's state", values.size(), vectors * impl_->count);
  std::uint64_t model_version = 0;
  impl_->exchange(
      [](Part& part, ClientConnection& connection) { connection.send(MessageType::kShardState, part.name, {}); },
      [&](Part& part, ClientConnection& connection) {
        const auto reply = connection.receive(MessageType::kShardState);
        std::uint64_t version = 0;
        if (reply.length != sizeof(version) + vectors * part.bytes()) {
          connection.throw_malformed("the reply is not a shard's state");
        }
        std::vector<std::span<std::byte>> into = {std::as_writable_bytes(std::span(&version, 1))};
        for (std::size_t i = 0; i < vectors; ++i) {
          into.push_back(std::as_writable_bytes(values.subspan(i * impl_->count + part.begin, part.count)));
        }
        connection.receive_body(into);
        if (&part == impl_->parts.front().get()) model_version = version;
      });
  return model_version;
}

void ShardedModel::load(std::uint64_t version, std::span<const float> values) {
  const std::size_t vectors = this->vectors();
  impl_->check_values("a model's state", values.size(), vectors * impl_->count);
  impl_->exchange(
      [&](Part& part, ClientConnection& connection) {
        std::vector<std::span<const std::byte>> slices;
        for (std::size_t i = 0; i < vectors; ++i) {
          slices.push_back(std::as_bytes(values.subspan(i * impl_->count + part.begin, part.count)));
        }
        connection.send(MessageType::kLoadShard, part.name, bytes_of(version), slices);
      },
      [&](Part& part, ClientConnection& connection) {
        connection.receive_body(connection.receive(MessageType::kLoadShard));
        part.fetched.reset();
      });
}

}  // namespace headrace
