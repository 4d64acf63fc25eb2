// Every insert that was acknowledged lies in the file, whenever the process is killed.
#include "core_fixtures.h"
#include "killed_process.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;
using fixtures::Tell;

constexpr std::uint64_t kWriter = 7;
constexpr std::uint32_t kMostSteps = 12;

// Steps and content of a writer's chunk follow from its sequence, so that a finder can check it.
std::uint32_t steps_of(std::uint64_t sequence) {
  return 1 + static_cast<std::uint32_t>(sequence * 2654435761 % kMostSteps);
}

std::vector<std::byte> chunk_of(std::uint64_t sequence) {
  PlainChunk chunk = PlainChunk::of(steps_of(sequence), 1, static_cast<float>(sequence % 1024));
  chunk.writer = kWriter;
  chunk.sequence = sequence;
  return chunk.bytes(small_signature());
}

// Inserts for ever, from `sequence` on, and tells after each which one is in.
void insert_for_ever(const TableOptions& options, std::uint64_t sequence, const Tell& tell) {
  Table table(options);
  while (table.try_insert(chunk_of(sequence)) && tell(sequence)) ++sequence;
}

void check_kept(const TableOptions& options, std::uint64_t acknowledged) {
  std::uint64_t next_key = 0;  // where the chunk behind the acknowledged ones begins
  for (std::uint64_t sequence = 1; sequence <= acknowledged; ++sequence) next_key += steps_of(sequence);
  Table table(options);
  const std::uint64_t size = table.size();
  // One more may have been stored, and one that was being copied may have cost room for itself.
  REQUIRE(size + 3 * kMostSteps > options.capacity);
  REQUIRE(table.try_insert(chunk_of(acknowledged)));
  CHECK(table.size() == size);  // known, so it is there
  CHECK(table.stats().lost == 0);

  Buffers buffers(small_signature(), 256);
  REQUIRE(table.try_sample(buffers.view, 0));
  std::uint64_t oldest = ~std::uint64_t{0}, newest = 0;
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint64_t key = 0, sequence = 1;
    for (; key + steps_of(sequence) <= buffers.key[i]; ++sequence) key += steps_of(sequence);
    REQUIRE(buffers.reward[i] == static_cast<float>(sequence % 1024 + (buffers.key[i] - key)));
    oldest = std::min(oldest, buffers.key[i]);
    newest = std::max(newest, buffers.key[i]);
  }
  CHECK(newest + 1 >= next_key);
  CHECK(newest - oldest < size);
}

TEST_CASE("table: killed at any moment, a file keeps every acknowledged chunk that fits") {
  const ScratchFolder folder;
  std::mt19937 random(11);
  for (const bool slots_run_out : {true, false}) {  // before the bytes do, or after
    CAPTURE(slots_run_out);
    const TableOptions options{.signature = small_signature(),
                               .capacity = slots_run_out ? 60u : 70u,
                               .capacity_bytes = slots_run_out ? 8192u : 4096u,
                               .sampler = Sampler::kUniform,
                               .path = folder.file(slots_run_out ? "slots" : "bytes")};
    std::uint64_t acknowledged = 0;
    for (int round = 0; round < 20; ++round) {
      CAPTURE(round);
      // What was sent last is sent again, as by an actor whose answer was lost.
      const std::uint64_t next = std::max<std::uint64_t>(1, acknowledged);
      const auto work = [&](const Tell& tell) { insert_for_ever(options, next, tell); };
      acknowledged = fixtures::run_until_killed(work, next - 1, 40 + random() % 60, random() % 500);
      check_kept(options, acknowledged);
    }
  }
}

}  // namespace
}  // namespace headrace
