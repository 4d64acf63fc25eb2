// Batches from a server, kept in flight ahead of a learner: a separate connection with up to `credit` sample requests
// under way, and a thread that receives. The thread is woken to ask for more when fewer than half of them are ready.
// Over a Unix socket the batches lie in memory shared with the server, which gathers straight into it; over TCP they
// are received into the client's.
//
// Threading: next() and post_priorities() from one consumer thread at a time; close() from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/table.h"
#include "io/client.h"

namespace headrace {

class BatchStream {
 public:
  // A batch and what keeps its memory. The views are read-only, and their memory is reused.
  struct Batch {
    std::uint64_t memory;  // number of the memory that it lies in: another one after a reconnection
    std::size_t index;     // 0 .. credit - 1
    BatchView view;
    std::shared_ptr<const void> owner;
  };

  // Connects and asks; throws as Client, and kNotFound, kInvalid (credit below 2, above 64).
  BatchStream(ClientOptions options, std::string table, std::uint32_t batch_size, std::size_t credit,
              double importance_exponent);
  ~BatchStream();

  const Signature& signature() const;
  bool shared() const;  // batches lie in shared memory
  // The next batch, in the order drawn, valid until the call after; nullopt at the deadline. After an error of the
  // thread, and once all batches received before it are taken, every call rethrows the error: kClosed after the table
  // was closed.
  std::optional<Batch> next(Deadline deadline);
  // Sets priorities to these magnitudes. They are sent with the request that follows the next next(), so the consumer
  // waits for nothing; with the last connection, the last ones may be lost. Throws kInvalid, and as next() once the
  // thread has ended, as it does where the server refuses them.
  void post_priorities(std::span<const std::uint64_t> keys, std::span<const float> priorities);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
