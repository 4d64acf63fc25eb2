// Chunks that can be told apart once they are stored.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "wire_fixtures.h"

namespace headrace::testing {

using Tags = std::vector<std::uint64_t>;

// One step, whose policy version is `tag`.
inline Bytes tagged(std::uint64_t tag) {
  ChunkWriter writer({.signature = small_signature(), .chunk_steps = 1});
  const std::vector<float> observation = {0, 0};
  const std::int64_t action = 0;
  writer.set_policy_version(tag);
  writer.start(observation.data());
  writer.append(&action, 0, observation.data(), true, false);
  return writer.take().at(0);
}

// Tags of all transitions of a table, by key.
inline Tags tags_in(Table& table) {
  std::map<std::uint64_t, std::uint64_t> found;
  std::vector<std::uint64_t> keys(8 * table.size());  // each is drawn seven times at least
  std::vector<std::uint64_t> versions(keys.size());
  BatchView view;
  view.size = static_cast<std::uint32_t>(keys.size());
  view.key = keys.data();
  view.policy_version = versions.data();
  REQUIRE(table.try_sample(view, 0));
  for (std::size_t i = 0; i < keys.size(); ++i) found[keys[i]] = versions[i];
  Tags tags;
  for (const auto& [key, tag] : found) tags.push_back(tag);
  return tags;
}

inline TableOptions uniform_table() {
  auto options = small_table();
  options.sampler = Sampler::kUniform;
  return options;
}

}  // namespace headrace::testing
