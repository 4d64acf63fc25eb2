// Turns the steps of one environment into chunks: n-step returns, overlapping rows, initial priorities.
//
// Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/signature.h"

namespace headrace {

struct WriterOptions {
  Signature signature = {};
  std::uint32_t n_step = 1;        // >= 1
  double discount = 0.99;          // gamma in [0, 1]
  std::uint32_t chunk_steps = 50;  // T of a full chunk, >= 1
  std::uint32_t actor = 0;
};

// The actor's own Q values for one step, from which initial priorities |R + discount * greedy' - chosen| come
// (Horgan et al. 2018, section 3). NaN: not known, and the transition's priority is kUnknownPriority.
struct Values {
  double chosen = std::numeric_limits<double>::quiet_NaN();  // Q(s_t, a_t)
  double greedy = std::numeric_limits<double>::quiet_NaN();  // max_a Q(s_t, a)
};

class ChunkWriter {
 public:
  explicit ChunkWriter(WriterOptions options);  // throws kInvalid

  // Begins an episode with the observation that reset() returned. An unfinished episode is closed as by
  // truncation first.
  void start(const void* observation);
  // One step: the action, and what it led to. `values` belongs to the state the action was taken in;
  // `final_greedy` = max_a Q(observation, a) matters only where the episode is truncated here.
  // Throws kInvalid before start(), after an episode's end, and for a reward that is not finite.
  void append(const void* action, float reward, const void* observation, bool terminated, bool truncated,
              Values values = {}, double final_greedy = std::numeric_limits<double>::quiet_NaN());
  // Closes the open chunk early with the transitions whose n steps are complete (and, with values, whose
  // bootstrap value is known).
  void flush();
  void set_policy_version(std::uint64_t version) { policy_version_ = version; }  // of steps appended from now on

  // Finished chunks, oldest first; ownership moves to the caller.
  std::vector<std::vector<std::byte>> take();
  std::size_t finished() const { return chunks_.size(); }
  const WriterOptions& options() const { return options_; }

 private:
  void push_row(const void* observation);
  // Completes the oldest pending transition with the `ahead` steps after it; closes the chunk when it is full.
  void complete(std::uint32_t ahead, bool terminated, double greedy);
  void end_episode(bool terminated, double final_greedy);
  void close_chunk();
  std::vector<std::byte> assemble(std::uint32_t rows) const;
  void carry_over();

  WriterOptions options_;
  std::size_t row_bytes_;
  std::size_t action_bytes_;
  std::vector<double> powers_;  // gamma^i, i = 0 .. n
  std::uint64_t policy_version_ = 0;
  bool running_ = false;  // between start() and an episode's end

  // The open chunk and the steps after it, all counted from the chunk's first transition. Nothing here grows.
  std::vector<std::byte> rows_;          // [T + n + K - 1, *O]
  std::vector<std::byte> actions_;       // [T + n + 1, *A]
  std::vector<std::uint64_t> versions_;  // [T + n + 1] of the policy
  std::vector<float> rewards_;           // [T + n + 1] one-step
  std::vector<double> chosen_;           // [T + n + 1]
  std::uint32_t history_ = 0;            // rows before the first transition's frame
  std::uint32_t row_count_ = 0;
  std::uint32_t step_count_ = 0;                         // steps appended since the chunk's first transition
  std::uint32_t length_ = 0;                             // transitions complete
  std::vector<std::uint32_t> first_, last_;              // [T]
  std::vector<float> returns_, discounts_, priorities_;  // [T]

  std::vector<std::vector<std::byte>> chunks_;
};

}  // namespace headrace
