#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;
using fixtures::soon;

TableOptions options_of(Sampler sampler) {
  return {.signature = small_signature(2),
          .capacity = 100,
          .capacity_bytes = 6000,
          .sampler = sampler,
          .limiter = {.samples_per_insert = 3, .tolerance = 40, .min_size = 20},
          .seed = 5};
}

// One random call; true and the batch in `buffers` where it was a sample that succeeded.
bool act(Table& table, std::mt19937& random, Buffers& buffers) {
  std::vector<std::uint64_t> keys(8);
  std::vector<float> priorities(8);
  const unsigned choice = random() % 3;
  const auto steps = static_cast<std::uint32_t>(1 + random() % 9);
  PlainChunk chunk = PlainChunk::of(steps, 1, static_cast<float>(random() % 1000));
  for (auto& priority : chunk.priority) priority = static_cast<float>(random() % 100) / 10;
  for (auto& key : keys) key = random() % 400;
  for (auto& priority : priorities) priority = static_cast<float>(random() % 100) / 10;
  if (choice == 0) table.try_insert(chunk.bytes(small_signature(2)));
  if (choice == 1) table.update_priorities(keys, priorities);
  return choice == 2 && table.try_sample(buffers.view, 0.5);
}

std::vector<char> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("table: a restored table behaves exactly as the saved one") {
  const ScratchFolder folder;
  for (const Sampler sampler : {Sampler::kPrioritized, Sampler::kUniform}) {
    for (const int before : {0, 10, 100, 400, 1000}) {
      CAPTURE(before);
      Table saved(options_of(sampler));
      Buffers a(small_signature(2), 16), b(small_signature(2), 16);
      std::mt19937 random(static_cast<unsigned>(before));
      for (int i = 0; i < before; ++i) act(saved, random, a);
      saved.save(folder.file("snapshot"));
      Table restored(options_of(sampler));
      restored.restore(folder.file("snapshot"));
      CHECK(restored.size() == saved.size());
      CHECK(restored.stats().total_weight == saved.stats().total_weight);
      int batches = 0;
      for (int i = 0; i < 600; ++i) {
        std::mt19937 same = random;
        const bool sampled = act(saved, random, a);
        REQUIRE(act(restored, same, b) == sampled);
        if (!sampled) continue;
        REQUIRE(a.same_as(b));
        ++batches;
      }
      CHECK(batches > 50);
      const TableStats x = saved.stats(), y = restored.stats();
      CHECK(x.inserts == y.inserts);
      CHECK(x.samples == y.samples);
      CHECK(x.updates == y.updates);
      CHECK(x.evicted == y.evicted);
      CHECK(x.max_priority == y.max_priority);
      CHECK(x.used_bytes == y.used_bytes);
    }
  }
}

TEST_CASE("table: a truncated, corrupted or extended snapshot is refused, naming the file") {
  const ScratchFolder folder;
  const std::string path = folder.file("snapshot"), damaged = folder.file("damaged");
  Table saved(options_of(Sampler::kPrioritized));
  for (int i = 0; i < 3; ++i) saved.try_insert(PlainChunk::of(4, 2).bytes(small_signature(2)));
  saved.save(path);
  const std::vector<char> bytes = contents(path);
  Table table(options_of(Sampler::kPrioritized));
  const auto refused = [&](const std::vector<char>& changed) {
    write(damaged, changed);
    check_error(ErrorKind::kCorrupt, damaged, [&] { table.restore(damaged); });
    REQUIRE(table.size() == 0);
  };
  for (std::size_t length = 0; length < bytes.size(); length += 7) {
    CAPTURE(length);
    refused({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    CAPTURE(at);
    std::vector<char> changed = bytes;
    changed[at] ^= 1;
    refused(changed);
  }
  std::vector<char> longer = bytes;
  longer.push_back(0);
  refused(longer);
  table.restore(path);  // after all that the table is as good as new
  CHECK(table.size() == 12);
}

TEST_CASE("table: a snapshot of an earlier version is refused") {
  const ScratchFolder folder;
  const std::string path = folder.file("snapshot");
  Table table(options_of(Sampler::kPrioritized));
  table.save(path);
  std::vector<char> bytes = contents(path);
  const auto view = std::as_bytes(std::span(bytes));
  std::uint64_t size = 0;  // of the preamble, which a header of 16 bytes precedes: size, checksum, its own checksum
  std::memcpy(&size, bytes.data(), sizeof(size));
  const std::uint64_t version = 1;
  std::memcpy(bytes.data() + 24, &version, sizeof(version));
  const std::uint32_t checksum = crc32c(view.subspan(16, size));
  std::memcpy(bytes.data() + 8, &checksum, sizeof(checksum));
  const std::uint32_t self_checksum = crc32c(view.first(12));
  std::memcpy(bytes.data() + 12, &self_checksum, sizeof(self_checksum));
  write(path, bytes);
  check_error(ErrorKind::kCorrupt, "it is not a snapshot of version 3", [&] { table.restore(path); });
}

TEST_CASE("table: a snapshot restores only into a compatible table") {
  const ScratchFolder folder;
  const std::string path = folder.file("snapshot");
  Table saved(options_of(Sampler::kPrioritized));
  for (int i = 0; i < 3; ++i) saved.try_insert(PlainChunk::of(4, 2, static_cast<float>(i)).bytes(small_signature(2)));
  saved.save(path);
  const auto into = [&](auto&& change) {
    TableOptions options = options_of(Sampler::kPrioritized);
    change(options);
    Table table(options);
    table.restore(path);
    return table.size();
  };
  check_error(ErrorKind::kMismatch, "signature", [&] { into([](TableOptions& o) { o.signature.stack = 1; }); });
  check_error(ErrorKind::kMismatch, "capacity is 100", [&] { into([](TableOptions& o) { o.capacity = 99; }); });
  check_error(ErrorKind::kSystem, "/nowhere/snapshot",
              [&] { Table(options_of(Sampler::kUniform)).restore("/nowhere/snapshot"); });
  check_error(ErrorKind::kSystem, "/nowhere/snapshot", [&] { saved.save("/nowhere/snapshot"); });
  check_error(ErrorKind::kInvalid, "never held transitions", [&] { saved.restore(path); });
  CHECK(into([](TableOptions& o) { o.capacity_bytes = 60'000; }) == 12);
  CHECK(into([](TableOptions& o) { o.capacity_bytes = 600; }) == 8);  // room for two chunks of 256 bytes
  CHECK(into([&](TableOptions& o) { o.path = folder.file("arena"); }) == 12);
}

TEST_CASE("table: no space for a snapshot is an error that names the file") {
  const ScratchFolder folder;
  Table table({.signature = small_signature(), .capacity = 50'000});
  const auto chunk = PlainChunk::of(50, 2).bytes(small_signature());
  for (int i = 0; i < 1000; ++i) table.try_insert(chunk);
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 1 << 20;
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  check_error(ErrorKind::kSystem, folder.file("snapshot"), [&] { table.save(folder.file("snapshot")); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, previous);
  for (int i = 0; i < 1000; ++i) REQUIRE(table.try_insert(chunk));  // over all of them: nothing stayed pinned
}

TEST_CASE("table: a snapshot during concurrent inserts, samples and updates is consistent") {
  const ScratchFolder folder;
  TableOptions options{.signature = small_signature(), .capacity = 2000, .seed = 3};
  Table table(options);
  for (int i = 0; i < 40; ++i) table.try_insert(PlainChunk::of(50, 1).bytes(small_signature()));
  std::atomic<bool> stop = false;
  std::thread actor([&] {
    while (!stop) table.insert(PlainChunk::of(50, 1).bytes(small_signature()), soon());
  });
  std::thread learner([&] {
    Buffers buffers(small_signature(), 64);
    const std::vector<float> priorities(64, 3);
    while (!stop) {
      table.try_sample(buffers.view, 0.4);
      table.update_priorities(buffers.key, priorities);
    }
  });
  for (int i = 0; i < 10; ++i) {
    table.save(folder.file("snapshot"));
    Table restored(options);
    restored.restore(folder.file("snapshot"));
    CHECK(restored.size() >= 1950);  // full, or with one chunk evicted for the one that is being copied
  }
  stop = true;
  actor.join();
  learner.join();
}

}  // namespace
}  // namespace headrace
