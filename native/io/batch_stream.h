// Batches from a server, kept in flight ahead of a learner: a separate connection with `credit` sample requests under
// way at all times, and a thread that receives. Over a Unix socket the batches lie in memory shared with the server,
// which gathers straight into it; over TCP they are received into the client's.
//
// Threading: next() from one consumer thread at a time; close() from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
