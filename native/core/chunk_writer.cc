#include "core/chunk_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "core/chunk.h"
#include "core/error.h"

namespace headrace {
namespace {

constexpr std::uint32_t kMaxNStep = 4096;
constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

void require(bool holds, const char* name, const std::string& value, const char* required) {
  if (holds) return;
  throw Error(ErrorKind::kInvalid,
              std::string(name) + " is " + value + ", but it must be " + required + "; no chunk can be written");
}

const WriterOptions& checked(const WriterOptions& options) {
  options.signature.check();
  require(options.n_step >= 1 && options.n_step <= kMaxNStep, "n_step", std::to_string(options.n_step),
          "from 1 to 4096");
  require(options.discount >= 0 && options.discount <= 1, "discount", std::to_string(options.discount), "in [0, 1]");
  require(options.chunk_steps >= 1 && options.chunk_steps <= kMaxSteps, "chunk_steps",
          std::to_string(options.chunk_steps), "from 1 to 1048576");
  return options;
}

}  // namespace

ChunkWriter::ChunkWriter(WriterOptions options)
    : options_(std::move(options)),
      row_bytes_(checked(options_).signature.observation.bytes()),
      action_bytes_(options_.signature.action.bytes()) {
  const std::size_t length = options_.chunk_steps;
  const std::size_t steps = length + options_.n_step + 1;
  rows_.resize((length + options_.n_step + options_.signature.stack - 1) * row_bytes_);
  actions_.resize(steps * action_bytes_);
  versions_.resize(steps);
  rewards_.resize(steps);
  chosen_.resize(steps);
  for (auto* column : {&first_, &last_}) column->resize(length);
  for (auto* column : {&returns_, &discounts_, &priorities_}) column->resize(length);
  double power = 1;
  for (std::uint32_t i = 0; i <= options_.n_step; ++i, power *= options_.discount) powers_.push_back(power);
}

void ChunkWriter::push_row(const void* observation) {
  std::memcpy(rows_.data() + row_count_ * row_bytes_, observation, row_bytes_);
  ++row_count_;
}

void ChunkWriter::start(const void* observation) {
  if (running_) end_episode(false, kNotKnown);
  running_ = true;
  history_ = row_count_ = step_count_ = length_ = 0;
  push_row(observation);
}

void ChunkWriter::append(const void* action, float reward, const void* observation, bool terminated, bool truncated,
                         Values values, double final_greedy) {
  if (!running_)
    throw Error(ErrorKind::kInvalid, "append() outside an episode: call start() with its first observation");
  require(std::isfinite(reward), "reward", std::to_string(reward), "finite");
  const std::uint32_t n = options_.n_step;
  // This step's greedy value is what the transition n steps back has been waiting for.
  if (step_count_ >= length_ + n) complete(n, false, values.greedy);
  std::memcpy(actions_.data() + step_count_ * action_bytes_, action, action_bytes_);
  versions_[step_count_] = policy_version_;
  rewards_[step_count_] = reward;
  chosen_[step_count_] = values.chosen;
  ++step_count_;
  push_row(observation);
  if (terminated || truncated) {
    end_episode(terminated, final_greedy);
  } else if (step_count_ >= length_ + n && std::isnan(chosen_[length_])) {
    complete(n, false, kNotKnown);  // without values there is nothing to wait for
  }
}

void ChunkWriter::complete(std::uint32_t ahead, bool terminated, double greedy) {
  double sum = 0;
  for (std::uint32_t i = 0; i < ahead; ++i) sum += powers_[i] * rewards_[length_ + i];
  const double discount = terminated ? 0.0 : powers_[ahead];
  const double bootstrap = discount == 0.0 ? 0.0 : discount * greedy;
  const auto priority = static_cast<float>(std::abs(sum + bootstrap - chosen_[length_]));
  first_[length_] = history_ + length_;
  last_[length_] = history_ + length_ + ahead;
  returns_[length_] = static_cast<float>(sum);
  discounts_[length_] = static_cast<float>(discount);
  priorities_[length_] = std::isfinite(priority) ? priority : kUnknownPriority;
  ++length_;
  if (length_ == options_.chunk_steps) close_chunk();
}

void ChunkWriter::end_episode(bool terminated, double final_greedy) {
  while (length_ < step_count_) complete(std::min(options_.n_step, step_count_ - length_), terminated, final_greedy);
  close_chunk();
  running_ = false;
}

void ChunkWriter::flush() { close_chunk(); }

void ChunkWriter::close_chunk() {
  if (length_ == 0) return;
  chunks_.push_back(assemble(last_[length_ - 1] + 1));
  carry_over();
}

std::vector<std::byte> ChunkWriter::assemble(std::uint32_t rows) const {
  const ChunkLayout layout = ChunkLayout::of(options_.signature, length_, rows);
  std::vector<std::byte> chunk(layout.bytes);
  ChunkHeader header;
  header.bytes = layout.bytes;
  header.steps = length_;
  header.rows = rows;
  header.actor = options_.actor;
  std::memcpy(chunk.data(), &header, sizeof(header));
  std::memcpy(chunk.data() + layout.observation, rows_.data(), rows * row_bytes_);
  std::memcpy(chunk.data() + layout.action, actions_.data(), length_ * action_bytes_);
  const auto put = [&](std::size_t offset, const auto& column) {
    std::memcpy(chunk.data() + offset, column.data(), length_ * sizeof(column[0]));
  };
  put(layout.policy_version, versions_);
  put(layout.first, first_);
  put(layout.last, last_);
  put(layout.reward, returns_);
  put(layout.discount, discounts_);
  put(layout.priority, priorities_);
  return chunk;
}

// The next chunk begins with the history of its first transition and with the steps that are still pending.
void ChunkWriter::carry_over() {
  const std::uint32_t frame = history_ + length_;  // row of the next chunk's first s_t
  const std::uint32_t kept_history = std::min(frame, options_.signature.stack - 1);
  const std::uint32_t from = frame - kept_history;
  const std::uint32_t pending = step_count_ - length_;
  row_count_ -= from;
  std::memmove(rows_.data(), rows_.data() + from * row_bytes_, row_count_ * row_bytes_);
  std::memmove(actions_.data(), actions_.data() + length_ * action_bytes_, pending * action_bytes_);
  std::copy_n(versions_.begin() + length_, pending, versions_.begin());
  std::copy_n(rewards_.begin() + length_, pending, rewards_.begin());
  std::copy_n(chosen_.begin() + length_, pending, chosen_.begin());
  history_ = kept_history;
  step_count_ = pending;
  length_ = 0;
}

std::vector<std::vector<std::byte>> ChunkWriter::take() { return std::exchange(chunks_, {}); }

}  // namespace headrace
