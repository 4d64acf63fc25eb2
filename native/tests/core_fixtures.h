// What the tests of the core share: chunks made by hand, buffers for a batch, a folder that goes away.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/chunk.h"
#include "core/error.h"
#include "core/table.h"

namespace headrace::fixtures {

inline Signature small_signature(std::uint32_t stack = 1) { return {{"float32", {2}}, {"int32", {}}, stack}; }

// A chunk's columns, to be read and changed freely. Rows are of `small_signature()`: two floats.
struct PlainChunk {
  std::vector<std::array<float, 2>> rows;
  std::vector<std::int32_t> action;
  std::vector<std::uint32_t> first, last;
  std::vector<float> reward, discount, priority;
  std::vector<std::uint64_t> policy_version;
  std::uint64_t writer = 0, sequence = 0;

  // T steps of one-step transitions over T + 1 rows. Row r holds {tag, r}; action, policy version and reward count from
  // `tag`.
  static PlainChunk of(std::uint32_t steps, float priority, float tag = 0) {
    PlainChunk chunk;
    for (std::uint32_t r = 0; r <= steps; ++r) chunk.rows.push_back({tag, static_cast<float>(r)});
    for (std::uint32_t t = 0; t < steps; ++t) {
      chunk.action.push_back(static_cast<std::int32_t>(tag) + static_cast<std::int32_t>(t));
      chunk.policy_version.push_back(static_cast<std::uint64_t>(tag) + t);
      chunk.first.push_back(t);
      chunk.last.push_back(t + 1);
      chunk.reward.push_back(tag + static_cast<float>(t));
      chunk.discount.push_back(0.5f);
      chunk.priority.push_back(priority);
    }
    return chunk;
  }

  std::vector<std::byte> bytes(const Signature& signature) const {
    const auto steps = static_cast<std::uint32_t>(action.size());
    const ChunkLayout layout = ChunkLayout::of(signature, steps, static_cast<std::uint32_t>(rows.size()));
    std::vector<std::byte> out(layout.bytes);
    ChunkHeader header;
    header.bytes = layout.bytes;
    header.steps = steps;
    header.rows = static_cast<std::uint32_t>(rows.size());
    header.writer = writer;
    header.sequence = sequence;
    std::memcpy(out.data(), &header, sizeof(header));
    const auto put = [&](std::size_t offset, const auto& column) {
      std::memcpy(out.data() + offset, column.data(), column.size() * sizeof(column[0]));
    };
    put(layout.observation, rows);
    put(layout.action, action);
    put(layout.policy_version, policy_version);
    put(layout.first, first);
    put(layout.last, last);
    put(layout.reward, reward);
    put(layout.discount, discount);
    put(layout.priority, priority);
    return out;
  }
};

// Memory for batches of B transitions of a signature.
struct Buffers {
  Buffers(const Signature& signature, std::uint32_t size)
      : observation(size * signature.stack * signature.observation.bytes()),
        next_observation(observation.size()),
        action(size * signature.action.bytes()),
        reward(size),
        discount(size),
        weight(size),
        probability(size),
        key(size),
        policy_version(size),
        view{size,          observation.data(),   next_observation.data(), action.data(),
             reward.data(), discount.data(),      weight.data(),           probability.data(),
             key.data(),    policy_version.data()} {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  template <class T>
  static T value(const std::vector<std::byte>& bytes, std::size_t index) {
    T result;
    std::memcpy(&result, bytes.data() + index * sizeof(T), sizeof(T));
    return result;
  }

  bool same_as(const Buffers& other) const {
    return observation == other.observation && next_observation == other.next_observation && action == other.action &&
           reward == other.reward && discount == other.discount && weight == other.weight &&
           probability == other.probability && key == other.key && policy_version == other.policy_version;
  }

  std::vector<std::byte> observation, next_observation, action;
  std::vector<float> reward, discount, weight, probability;
  std::vector<std::uint64_t> key, policy_version;
  BatchView view;
};

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "headrace-test-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Runs `action`, which must throw an Error of this kind whose message contains `text`.
inline void check_error(ErrorKind kind, const std::string& text, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    CHECK_MESSAGE(std::string(error.what()).find(text) != std::string::npos, error.what());
    return;
  }
  FAIL_CHECK("no error was thrown, but one was expected that says: " << text);
}

inline Deadline soon(int milliseconds = 60'000) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

}  // namespace headrace::fixtures
