// Everything of a shard at one moment, as its file keeps it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace headrace {

struct ShardImage {
  // A worker that pushed gradients, and the result of its last push.
  struct Worker {
    std::uint64_t name, heard, sequence, version, staleness, verdict;
  };

  std::uint64_t version = 0;
  std::uint64_t steps = 0;  // of the optimizer
  std::uint64_t lost = 0;   // updates that were lost with earlier servers
  std::vector<Worker> workers = {};
  std::span<std::byte> state = {};  // parameters, then the optimizer's moments; the caller's memory
};

}  // namespace headrace
