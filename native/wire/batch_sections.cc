#include "wire/batch_sections.h"

namespace headrace {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

std::array<std::uint64_t, kBatchSections> section_bytes(const Signature& signature, std::uint32_t size) {
  const std::uint64_t B = size;
  const std::uint64_t observation = B * signature.stack * signature.observation.bytes();
  return {
      observation,       observation,       B * signature.action.bytes(), B * sizeof(float),        B * sizeof(float),
      B * sizeof(float), B * sizeof(float), B * sizeof(std::uint64_t),    B * sizeof(std::uint64_t)};
}

std::uint64_t total_bytes(const BatchSections& sections) {
  std::uint64_t total = 0;
  for (const auto section : sections) total += section.size();
  return total;
}

BatchSections sections_of(const Signature& signature, const BatchView& batch) {
  const std::array<void*, kBatchSections> starts = {
      batch.observation, batch.next_observation, batch.action, batch.reward,        batch.discount,
      batch.weight,      batch.probability,      batch.key,    batch.policy_version};
  const auto bytes = section_bytes(signature, batch.size);
  BatchSections sections;
  for (std::size_t i = 0; i < kBatchSections; ++i) sections[i] = {static_cast<std::byte*>(starts[i]), bytes[i]};
  return sections;
}

std::uint64_t block_bytes(const Signature& signature, std::uint32_t size) {
  std::uint64_t total = 0;
  for (const auto bytes : section_bytes(signature, size)) total += aligned(bytes);
  return total;
}

BatchView lay_out(const Signature& signature, std::uint32_t size, std::byte* block) {
  std::array<std::byte*, kBatchSections> starts;
  const auto bytes = section_bytes(signature, size);
  for (std::size_t i = 0; i < kBatchSections; ++i) {
    starts[i] = block;
    block += aligned(bytes[i]);
  }
  BatchView view;
  view.size = size;
  view.observation = starts[0];
  view.next_observation = starts[1];
  view.action = starts[2];
  view.reward = reinterpret_cast<float*>(starts[3]);
  view.discount = reinterpret_cast<float*>(starts[4]);
  view.weight = reinterpret_cast<float*>(starts[5]);
  view.probability = reinterpret_cast<float*>(starts[6]);
  view.key = reinterpret_cast<std::uint64_t*>(starts[7]);
  view.policy_version = reinterpret_cast<std::uint64_t*>(starts[8]);
  return view;
}

}  // namespace headrace
