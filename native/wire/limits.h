// What a peer may ask of a session. Each limit is checked before anything is allocated for the request.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

struct Limits {
  std::uint64_t max_frame_bytes = 256ull << 20;  // body of one frame, in either direction
  std::size_t max_name_bytes = 256;              // of a table, blob or mailbox: printable ASCII
  std::uint32_t max_batch = 1u << 16;            // transitions of one sample
  std::size_t max_queued_bytes = 4u << 20;       // output that waits for the peer; above, no further request is handled
};

}  // namespace headrace
