// Every insert that was acknowledged lies in the file, whenever the process is killed.
#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;

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

// Inserts for ever, from `sequence` on, and says after each which one is in. A plain write: the pipe is the one thing
// that a killed process and its parent agree on.
[[noreturn]] void insert_for_ever(const TableOptions& options, std::uint64_t sequence, int pipe) {
  try {
    Table table(options);
    for (; table.try_insert(chunk_of(sequence)); ++sequence) {
      if (write(pipe, &sequence, sizeof(sequence)) != sizeof(sequence)) break;
    }
  } catch (const std::exception&) {
  }
  _exit(1);  // which its parent will notice
}

// Forks such a process, kills it after it acknowledged `count` more and an instant longer; the last it acknowledged.
std::uint64_t insert_until_killed(const TableOptions& options, std::uint64_t sequence, unsigned count,
                                  useconds_t longer) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    insert_for_ever(options, sequence, ends[1]);
  }
  close(ends[1]);
  std::uint64_t last = sequence - 1, acknowledged = 0;
  const auto next = [&] { return read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged); };
  for (unsigned i = 0; i < count && next(); ++i) last = acknowledged;
  usleep(longer);
  kill(child, SIGKILL);
  while (next()) last = acknowledged;  // what was in the pipe
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  close(ends[0]);
  return last;
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
      acknowledged = insert_until_killed(options, next, 40 + random() % 60, random() % 500);
      check_kept(options, acknowledged);
    }
  }
}

}  // namespace
}  // namespace headrace
