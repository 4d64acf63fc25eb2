// What a peer may ask of a session. Each limit is checked before anything is allocated for the request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace headrace {

struct Limits {
  std::uint64_t max_frame_bytes = 256ull << 20;   // body of one frame, in either direction
  std::uint64_t max_unproven_frame_bytes = 1024;  // before the peer has shown that it knows the token
  std::size_t max_name_bytes = 256;               // of a table, blob or mailbox: printable ASCII
  std::uint32_t max_batch = 1u << 16;             // transitions of one sample
  std::uint64_t max_shared_bytes = 4ull << 30;    // of one session's shared memory
  std::size_t max_claims = 1024;                  // of one session
  std::uint64_t max_part_bytes = 4ull << 20;      // of a blob, in one request or reply
  std::size_t max_queued_bytes = 4u << 20;        // output that waits; above, or behind a batch, no request is handled

  // A session whose peer takes longer is closed.
  std::chrono::seconds proof_wait{10};  // from the beginning to the proof, where a token is required; else to a request
  std::chrono::seconds frame_wait{60};  // behind 64 KiB a second, within a frame that has begun
  std::chrono::seconds output_wait{60};  // behind 64 KiB a second, in taking what waits for it
  std::chrono::seconds idle_wait{3600};  // without a request, unless one of the peer is held
  std::chrono::seconds memory_wait{10};  // likewise: then its buffers are released, and taken again when needed
};

}  // namespace headrace
