#include "io/client.h"

#include <algorithm>
#include <array>
#include <map>

#include "io/link.h"
#include "io/posted_inserts.h"
#include "io/priority_update.h"
#include "io/turns.h"
#include "wire/batch_sections.h"

namespace headrace {
namespace {

using std::chrono::milliseconds;

// Of the chunks that go into one request, unless a single one is larger: the server handles them at one go.
constexpr std::size_t kInsertBytes = std::size_t{1} << 20;
// Instead of kLongestWait where several threads use the client: their calls wait so long for one that the server holds.
constexpr milliseconds kSharedWait{1000};
// For what an insert's frame contains besides the table's name and the chunk.
constexpr std::uint64_t kInsertRoom = 256;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// As they are sent.
struct ClaimTerms {
  std::uint64_t owner, run;
  std::int64_t keep;
};

}  // namespace

struct Client::Impl {
  explicit Impl(ClientOptions options)
      : network(*options.network),
        most_chunk_bytes(options.limits.max_frame_bytes -
                         std::min(options.limits.max_frame_bytes, options.limits.max_name_bytes + kInsertRoom)),
        most_part_bytes(options.limits.max_part_bytes),
        writer(network.draw_number()),
        turns(options.interrupt),
        inserting(options.interrupt),
        inserts(writer, std::min<std::size_t>(kInsertBytes, most_chunk_bytes)),
        link(std::move(options), [this](ClientConnection& connection) { greet(connection); }) {}

  // The link calls it, in the constructor or in the turn of the call that connects again.
  void greet(ClientConnection& connection) NO_THREAD_SAFETY_ANALYSIS {
    signatures.clear();  // the server may be another one
    inserts.connection_is_new();
    for (const auto& [name, terms] : claims) claim(connection, name, terms);
  }
  static void claim(ClientConnection& connection, const std::string& name, const ClaimTerms& terms) {
    connection.receive_body(connection.request(MessageType::kClaim, name, bytes_of(terms)));
  }
  void give_back() EXCLUDES(turns);

  // Every request but posted inserts comes after them.
  template <typename Call>
  auto exchange(Call call) REQUIRES(turns) {
    settle_inserts();
    return link.exchange(call);
  }
  void settle_inserts() REQUIRES(turns) {
    while (!inserts.empty()) advance_inserts(true);
  }
  bool advance_inserts(bool wait) REQUIRES(turns) {
    const auto advance = [this, wait](ClientConnection& connection) NO_THREAD_SAFETY_ANALYSIS {  // in this turn
      return inserts.advance(connection, wait);
    };
    return link.exchange(advance);
  }
  std::uint64_t ask_for_number(MessageType type, const std::string& name, std::span<const std::byte> payload,
                               std::span<const std::span<const std::byte>> trailing = {}) REQUIRES(turns) {
    return exchange([&](ClientConnection& connection) {
      return connection.receive_number<std::uint64_t>(connection.request(type, name, payload, trailing));
    });
  }
  std::vector<std::byte> ask(MessageType type, const std::string& name, std::span<const std::byte> payload,
                             std::span<const std::span<const std::byte>> trailing = {}) REQUIRES(turns) {
    return exchange([&](ClientConnection& connection) {
      return connection.receive_body(connection.request(type, name, payload, trailing));
    });
  }
  // `parts(connection, offset)` transfers a blob from `offset`, and advances it. Once more from the beginning where the
  // server has dropped the parts before a later one, as it does after a while.
  template <typename Parts>
  auto transfer(Parts parts) REQUIRES(turns) {
    return exchange([&](ClientConnection& connection) {
      std::uint64_t offset = 0;
      try {
        return parts(connection, offset);
      } catch (const Error& error) {
        if (offset == 0 || error.kind() != ErrorKind::kInvalid) throw;
      }
      offset = 0;
      return parts(connection, offset);
    });
  }
  Signature signature_of(const std::string& table) REQUIRES(turns) {
    return Signature::decode(as_text(ask(MessageType::kSignature, table, {})));
  }
  // For which the server is asked to hold a request; then the other threads have their turns.
  milliseconds longest_wait() { return turns.contended() ? kSharedWait : kLongestWait; }
  std::uint64_t insert(const std::string& table, std::span<const std::span<const std::byte>> chunks) REQUIRES(inserting)
      EXCLUDES(turns);
  void check_size(std::span<const std::byte> chunk) const;
  void check_signature(const std::string& table, const Signature& signature) REQUIRES(turns);

  struct Taken {
    std::uint64_t epoch = 0;
    std::uint64_t last = 0;
    std::size_t bytes = 0;                         // of messages
    std::vector<std::vector<std::byte>> messages;  // that came, and that no drain() has given yet
    bool take_more(std::span<const std::byte> body);
  };

  ClientNetwork& network;
  const std::uint64_t most_chunk_bytes;  // no larger chunk fits a frame
  const std::uint64_t most_part_bytes;   // of a blob
  const std::uint64_t writer;            // the same after a reconnection
  Turns turns;
  // Of calls that number chunks, taken before `turns`: while one waits between two requests, no chunk with a later
  // number may pass, or the server takes the earlier one for stored.
  Turns inserting ACQUIRED_BEFORE(turns);
  std::uint64_t sequence GUARDED_BY(turns) = 0;  // of the writer's chunks and messages
  PostedInserts inserts GUARDED_BY(turns);
  std::map<std::string, Signature> signatures GUARDED_BY(turns);  // of tables sampled from
  std::map<std::string, ClaimTerms> claims GUARDED_BY(turns);
  std::map<std::string, Taken> taken GUARDED_BY(turns);  // from mailboxes
  // Its exchange() needs the turn, its close() does not. Last: it greets with what is above.
  Link link;
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

void Client::close() {
  impl_->give_back();
  impl_->link.close();
}

// Asks the server not to keep the claimed names. Waits for no answer, because the server may be gone.
void Client::Impl::give_back() {
  if (!turns.try_take()) return;
  const auto claimed = std::exchange(claims, {});
  try {
    link.tell([&claimed](ClientConnection& connection) {
      for (auto [name, terms] : claimed) {
        if (std::exchange(terms.keep, 0) != 0) connection.send(MessageType::kClaim, name, bytes_of(terms));
      }
    });
  } catch (...) {  // the connection is lost or the call interrupted: the names are kept
  }
  turns.give();
}

std::uint64_t Client::instance() const { return impl_->link.instance(); }
std::uint64_t Client::reconnections() const { return impl_->link.reconnections(); }

Signature Client::signature(const std::string& table) {
  const Turn turn(impl_->turns);
  return impl_->signature_of(table);
}

std::uint64_t Client::insert(const std::string& table, std::span<const std::span<const std::byte>> chunks) {
  const Turn inserting(impl_->inserting);
  std::uint64_t key = 0;
  while (!chunks.empty()) {
    std::size_t count = 1;
    for (std::size_t bytes = chunks[0].size(); count < chunks.size(); ++count) {
      bytes += chunks[count].size();
      if (bytes > kInsertBytes) break;
    }
    key = impl_->insert(table, chunks.first(count));
    chunks = chunks.subspan(count);
  }
  return key;
}

std::uint64_t Client::Impl::insert(const std::string& table, std::span<const std::span<const std::byte>> chunks) {
  std::vector<std::byte> payload;
  std::span<const std::byte> rest;  // of the last chunk, which is not copied
  {
    const Turn turn(turns);
    for (const auto chunk : chunks) {
      check_size(chunk);
      payload.insert(payload.end(), rest.begin(), rest.end());
      rest = append_header(payload, chunk, writer, ++sequence);
    }
  }
  const std::array<std::span<const std::byte>, 2> parts = {payload, rest};
  const auto attempt = [&](ClientConnection& connection) -> std::optional<std::uint64_t> {
    const auto wait = longest_wait();
    const auto reply =
        connection.request(MessageType::kInsert, table, bytes_of(std::int64_t{wait.count()}), parts, wait);
    if (reply.status == kNothing) return std::nullopt;
    return connection.receive_number<std::uint64_t>(reply);
  };
  for (;;) {
    const Turn turn(turns);
    // Sent again, chunks that are stored already are known by their sequences.
    if (const auto key = exchange(attempt)) return *key;
  }
}

void Client::Impl::check_size(std::span<const std::byte> chunk) const {
  if (chunk.size() <= most_chunk_bytes) return;
  throw Error(ErrorKind::kChunkRefused, "chunk of " + std::to_string(chunk.size()) + " bytes: at most " +
                                            std::to_string(most_chunk_bytes) + "; nothing is sent");
}

bool Client::post_chunks(const std::string& table, std::span<const std::span<const std::byte>> chunks, bool wait) {
  for (const auto chunk : chunks) impl_->check_size(chunk);
  const Turn inserting(impl_->inserting);
  const Turn turn(impl_->turns);
  auto& inserts = impl_->inserts;
  while (!inserts.empty() && impl_->advance_inserts(wait && inserts.full())) continue;
  inserts.throw_error();
  if (inserts.full()) return false;
  for (const auto chunk : chunks) inserts.add(table, chunk, ++impl_->sequence);
  if (!inserts.empty()) impl_->advance_inserts(false);  // sends it
  return true;
}

void Client::Impl::check_signature(const std::string& table, const Signature& signature) {
  auto found = signatures.find(table);
  if (found == signatures.end()) found = signatures.insert_or_assign(table, signature_of(table)).first;
  if (found->second == signature) return;
  const auto theirs = found->second.encode();
  signatures.erase(found);  // in case the table is replaced by one that fits
  throw Error(ErrorKind::kInvalid, "batch: arrays of " + signature.encode() + "; table '" + table + "' holds " +
                                       theirs + "; nothing is sampled");
}

bool Client::sample(const std::string& table, const Signature& signature, const BatchView& batch,
                    double importance_exponent, std::optional<milliseconds> wait) {
  const auto deadline = wait ? impl_->network.now() + *wait : never();
  const auto sections = sections_of(signature, batch);
  const std::uint64_t bytes = total_bytes(sections);
  for (;;) {
    const Turn turn(impl_->turns);
    impl_->check_signature(table, signature);
    const auto longest = impl_->longest_wait();
    const auto left = deadline == never() ? longest : std::chrono::ceil<milliseconds>(deadline - impl_->network.now());
    const auto slice = std::clamp(left, milliseconds(0), longest);
    std::vector<std::byte> payload;
    append_number(payload, batch.size);
    append_number(payload, importance_exponent);
    append_number(payload, std::int64_t{slice.count()});
    const bool sampled = impl_->exchange([&](ClientConnection& connection) {
      const auto reply = connection.request(MessageType::kSample, table, payload, {}, slice);
      if (reply.status == kNothing) return false;
      if (reply.length != bytes) connection.throw_malformed("the reply is not a batch of the size asked for");
      connection.receive_body(sections);
      return true;
    });
    if (sampled || (deadline != never() && left <= slice)) return sampled;
  }
}

std::uint64_t Client::update_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                                        std::span<const float> priorities) {
  const auto parts = parts_of_update(keys, priorities);
  const Turn turn(impl_->turns);
  return impl_->ask_for_number(MessageType::kUpdatePriorities, table, {}, parts);
}

void Client::post_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                             std::span<const float> priorities) {
  const auto parts = parts_of_update(keys, priorities);
  const Turn turn(impl_->turns);
  impl_->exchange(
      [&](ClientConnection& connection) { connection.post(MessageType::kUpdatePriorities, table, {}, parts); });
}

void Client::settle() {
  const Turn turn(impl_->turns);
  impl_->settle_inserts();
  try {
    impl_->link.tell([](ClientConnection& connection) { connection.take_posted(); });
  } catch (const ConnectionLost&) {  // and what was posted on it
  }
  impl_->inserts.throw_error();
  impl_->link.tell([](ClientConnection& connection) { connection.settle(); });
}

std::uint64_t Client::publish(const std::string& name, std::uint64_t version, std::span<const std::byte> blob) {
  const Turn turn(impl_->turns);
  return impl_->transfer([&](ClientConnection& connection, std::uint64_t& offset) -> std::uint64_t {
    for (;;) {
      const std::array<std::uint64_t, 3> head = {version, blob.size(), offset};
      const auto part = blob.subspan(offset).first(std::min(blob.size() - offset, impl_->most_part_bytes));
      const auto reply = connection.request(MessageType::kPublish, name, bytes_of(head), std::span(&part, 1));
      if (reply.status == kOk) return connection.receive_number<std::uint64_t>(reply);
      offset += part.size();
      if (offset >= blob.size()) connection.throw_malformed("the reply to the last part is not a version");
    }
  });
}

std::optional<std::uint64_t> Client::fetch(const std::string& name, std::uint64_t newer_than,
                                           const Allocate& allocate) {
  const Turn turn(impl_->turns);
  const auto parts = [&](ClientConnection& connection, std::uint64_t& received) -> std::optional<std::uint64_t> {
    std::uint64_t version = 0;
    std::span<std::byte> blob;
    do {
      const auto reply = connection.request(MessageType::kFetch, name, bytes_of(std::array{newer_than, received}));
      if (reply.status == kNothing && received == 0) return std::nullopt;
      std::array<std::uint64_t, 2> head{};  // version, size
      if (reply.length < sizeof(head)) connection.throw_malformed("the reply is too short for a version and a size");
      const std::span<std::byte> head_bytes = std::as_writable_bytes(std::span(head));
      connection.receive_body(std::span(&head_bytes, 1));
      if (received == 0) {
        version = head[0];
        try {
          blob = {allocate(head[1]), head[1]};
        } catch (...) {
          connection.shut();  // the rest of the reply is not received
          throw;
        }
      }
      const std::uint64_t count = reply.length - sizeof(head);
      const bool fits = head[0] == version && head[1] == blob.size() && count <= blob.size() - received;
      if (!fits || (count == 0 && received < blob.size())) {
        connection.throw_malformed("the reply is not the next part of the blob");
      }
      const auto part = blob.subspan(received, count);
      connection.receive_body(std::span(&part, 1));
      received += count;
    } while (received < blob.size());
    return version;
  };
  return impl_->transfer(parts);
}

std::optional<std::pair<std::uint64_t, std::vector<std::byte>>> Client::fetch(const std::string& name,
                                                                              std::uint64_t newer_than) {
  std::vector<std::byte> blob;
  const auto version = fetch(name, newer_than, [&blob](std::size_t size) {
    blob.resize(size);
    return blob.data();
  });
  if (!version) return std::nullopt;
  return std::pair(*version, std::move(blob));
}

void Client::put(const std::string& mailbox, std::span<const std::byte> message) {
  const Turn turn(impl_->turns);
  const std::array<std::uint64_t, 2> number = {impl_->writer, ++impl_->sequence};
  impl_->ask(MessageType::kPut, mailbox, bytes_of(number), std::span(&message, 1));
}

// False where the answer has no messages. Throws kMalformed, and then takes none.
bool Client::Impl::Taken::take_more(std::span<const std::byte> body) {
  BodyReader reader(body);
  const auto epoch_now = reader.number<std::uint64_t>("epoch");
  const auto last_now = reader.number<std::uint64_t>("last");
  const std::size_t before = messages.size();
  try {
    while (!reader.empty()) {
      const auto length = reader.number<std::uint32_t>("message length");
      const auto message = reader.bytes(length, "message");
      messages.emplace_back(message.begin(), message.end());
    }
  } catch (...) {
    messages.resize(before);
    throw;
  }
  epoch = epoch_now;
  last = last_now;
  bytes += body.size();
  return messages.size() > before;
}

std::vector<std::vector<std::byte>> Client::drain(const std::string& mailbox) {
  const Turn turn(impl_->turns);
  auto& taken = impl_->taken[mailbox];
  // To an answer without messages: by then the server knows that the others arrived, and has forgotten them.
  for (bool more = true; more && taken.bytes < Mailbox::kMaxBytes && taken.messages.size() < Mailbox::kMaxMessages;) {
    const std::array<std::uint64_t, 2> seen = {taken.epoch, taken.last};
    more = taken.take_more(impl_->ask(MessageType::kDrain, mailbox, bytes_of(seen)));
  }
  taken.bytes = 0;
  return std::exchange(taken.messages, {});
}

std::string Client::stats() {
  const Turn turn(impl_->turns);
  return std::string(as_text(impl_->ask(MessageType::kStats, "", {})));
}

std::uint64_t Client::open_table(const std::string& name, const TableOptions& options, bool fresh) {
  const Turn turn(impl_->turns);
  const std::uint8_t flag = fresh ? 1 : 0;
  const auto text = options.encode();
  const auto part = as_bytes(text);
  impl_->signatures.erase(name);
  return impl_->ask_for_number(MessageType::kOpenTable, name, bytes_of(flag), std::span(&part, 1));
}

void Client::set_state(const std::string& table, TableState state) {
  const Turn turn(impl_->turns);
  impl_->ask(MessageType::kSetState, table, bytes_of(state));
}

std::uint64_t Client::drop(const std::string& prefix) {
  const Turn turn(impl_->turns);
  impl_->signatures.clear();
  return impl_->ask_for_number(MessageType::kDrop, prefix, {});
}

void Client::claim(const std::string& name, std::uint64_t owner, std::uint64_t run, milliseconds keep) {
  const Turn turn(impl_->turns);
  const ClaimTerms terms{owner, run, keep.count()};
  impl_->exchange([&](ClientConnection& connection) { Impl::claim(connection, name, terms); });
  impl_->claims[name] = terms;
}

}  // namespace headrace
