// A blocking connection to a server: one request at a time, and its reply.
//
// Every request may be sent again without doing anything twice (chunks and messages carry writer and sequence), so a
// connection that is lost, or a reply that does not come in time, is not an error within `reconnect_timeout`: the
// client reconnects, with growing pauses, repeats its claims and sends the request again.
//
// Threading: every method may be called from any thread; calls queue, and are served in order. An insert or a sample
// that the server holds lets the others pass between two of its requests: after 10 s at most, and after 1 s once a call
// has had to queue. Only inserts wait until an earlier insert has ended. close() ends a call that is under way. A call
// that is broken off by the interrupt closes the connection, since its reply may still come; with a reconnect_timeout
// the next call makes a new one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/server.h"
#include "core/signature.h"
#include "core/table.h"
#include "io/client_options.h"

namespace headrace {

class Client {
 public:
  // Tries until the server answers; kSystem, naming the address, at the deadline. kRefused: the server requires a
  // token and none was given, or it is the wrong one.
  explicit Client(ClientOptions options);
  ~Client();

  // Errors of the server keep their kind; kClosed once the connection is lost and cannot be restored. Until then a call
  // tries to restore it, for as long as the options say, also one with a shorter deadline or that does not wait.
  Signature signature(const std::string& table);
  // Stores these chunks in order, and waits while the limiter holds. The key of the last one. Where one is refused,
  // those before it are stored.
  std::uint64_t insert(const std::string& table, std::span<const std::span<const std::byte>> chunks);
  std::uint64_t insert(const std::string& table, std::span<const std::byte> chunk) {
    return insert(table, std::span(&chunk, 1));
  }
  // The same without waiting for the answer, unless too many chunks have none yet: then it waits, or without `wait`
  // takes none of these and returns false. A later post_chunks() or settle() throws the error of an earlier one; a
  // request may contain chunks of several calls, and those behind one that is refused are not stored. Where a call
  // throws because the connection is lost, its chunks may still be stored. All other requests of the client wait for
  // the answers.
  bool post_chunks(const std::string& table, std::span<const std::span<const std::byte>> chunks, bool wait);
  // Receives straight into the arrays, all of which must be there. False at the deadline; no `wait`: none. kInvalid
  // where the batch's signature is not the table's.
  bool sample(const std::string& table, const Signature& signature, const BatchView& batch, double importance_exponent,
              std::optional<std::chrono::milliseconds> wait);
  std::uint64_t update_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                                  std::span<const float> priorities);
  // The same without waiting for the answer: a later call throws the error of an earlier one. Where the connection is
  // lost, so may be the last ones.
  void post_priorities(const std::string& table, std::span<const std::uint64_t> keys,
                       std::span<const float> priorities);
  // Waits for the answers to all that was posted, then throws the first error, those of chunks before others. Where
  // there are errors of both, the next call throws the other.
  void settle();
  // `version` 0: the next; after a lost answer the same bytes may have two.
  std::uint64_t publish(const std::string& name, std::uint64_t version, std::span<const std::byte> blob);
  // A blob newer than a version, into memory that `allocate` returns for its size; its version. It is called again
  // where a connection is lost on the way. nullopt: there is none.
  using Allocate = std::function<std::byte*(std::size_t)>;
  std::optional<std::uint64_t> fetch(const std::string& name, std::uint64_t newer_than, const Allocate& allocate);
  std::optional<std::pair<std::uint64_t, std::vector<std::byte>>> fetch(const std::string& name,
                                                                        std::uint64_t newer_than);
  void put(const std::string& mailbox, std::span<const std::byte> message);
  std::vector<std::vector<std::byte>> drain(const std::string& mailbox);
  std::string stats();  // JSON text
  std::uint64_t open_table(const std::string& name, const TableOptions& options, bool fresh);
  void set_state(const std::string& table, TableState state);
  std::uint64_t drop(const std::string& prefix);
  // Held until this client is closed, and after a lost connection reserved for `keep`: see Claims.
  void claim(const std::string& name, std::uint64_t owner, std::uint64_t run = 0, std::chrono::milliseconds keep = {});
  // Returns claimed names if no call is under way. Posted chunks and priorities that are not answered may be lost, and
  // so are their errors: settle() first.
  void close();

  std::uint64_t instance() const;       // of the server that it last connected to
  std::uint64_t reconnections() const;  // how often a lost connection was replaced

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
