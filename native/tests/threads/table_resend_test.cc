// Chunks that are sent again because their answer was lost.
#include <fstream>
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

std::vector<std::byte> chunk_by(std::uint64_t writer, std::uint64_t sequence, std::uint32_t steps = 5) {
  PlainChunk chunk = PlainChunk::of(steps, 1);
  chunk.writer = writer;
  chunk.sequence = sequence;
  return chunk.bytes(small_signature());
}

TEST_CASE("table: a chunk that is sent again is stored once") {
  Table table({.signature = small_signature(), .capacity = 100});
  CHECK(table.try_insert(chunk_by(7, 1)) == 0);
  CHECK(table.try_insert(chunk_by(7, 1)) == 0);
  CHECK(table.insert(chunk_by(7, 1), soon()) == 0);
  CHECK(table.try_insert(chunk_by(8, 1)) == 5);
  CHECK(table.try_insert(chunk_by(7, 2)) == 10);
  CHECK(table.try_insert(chunk_by(7, 1)) == 10);  // older: the key of the writer's last
  CHECK(table.try_insert(chunk_by(0, 0)) == 15);  // without a writer: always new
  CHECK(table.try_insert(chunk_by(0, 0)) == 20);
  CHECK(table.size() == 25);
  CHECK(table.stats().inserts == 25);
}

TEST_CASE(
    "table: a repeated chunk is known while inserts are held, and after it was overwritten, but not when closed") {
  Table table({.signature = small_signature(),
               .capacity = 10,
               .limiter = {.samples_per_insert = 1, .tolerance = 10, .min_size = 1}});
  for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) REQUIRE(table.try_insert(chunk_by(7, sequence)));
  CHECK(table.try_insert(chunk_by(8, 1)) ==
        15);  // min_size was reached by the first, so 15 are above the tolerance of 10
  CHECK_FALSE(table.try_insert(chunk_by(8, 2)));
  CHECK(table.try_insert(chunk_by(8, 1)) == 15);
  CHECK(table.try_insert(chunk_by(7, 3)) == 10);
  CHECK(table.try_insert(chunk_by(7, 1)) == 10);  // keys 0..9 are gone
  CHECK_FALSE(table.try_insert(chunk_by(8, 2)));  // what was held is not stored
  table.set_paused(true);
  CHECK(table.try_insert(chunk_by(8, 1)) == 15);
  table.close();
  check_error(ErrorKind::kClosed, "closed", [&] { table.try_insert(chunk_by(8, 1)); });
  table.reopen();
  CHECK(table.try_insert(chunk_by(8, 1)) == 15);
}

TEST_CASE("table: two senders of one chunk wait for the limiter, and it is stored once") {
  Table table({.signature = small_signature(),
               .capacity = 100,
               .limiter = {.samples_per_insert = 1, .tolerance = 10, .min_size = 1}});
  for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) REQUIRE(table.try_insert(chunk_by(7, sequence)));
  std::vector<std::thread> senders;
  for (int i = 0; i < 2; ++i) {
    senders.emplace_back([&] { CHECK(table.insert(chunk_by(7, 5), soon()) == 20); });
  }
  Buffers buffers(small_signature(), 10);
  CHECK(table.sample(buffers.view, 0, soon()));
  for (auto& sender : senders) sender.join();
  CHECK(table.size() == 25);
}

TEST_CASE("table: a file keeps the writers of its chunks") {
  const ScratchFolder folder;
  const TableOptions options{.signature = small_signature(), .capacity = 20, .path = folder.file("replay")};
  {
    Table table(options);
    for (std::uint64_t sequence = 1; sequence <= 3; ++sequence) table.try_insert(chunk_by(7, sequence));
    table.try_insert(chunk_by(8, 4));
  }
  Table table(options);
  CHECK(table.stats().recovered == 20);
  CHECK(table.try_insert(chunk_by(7, 3)) == 10);
  CHECK(table.try_insert(chunk_by(7, 2)) == 10);
  CHECK(table.try_insert(chunk_by(8, 4)) == 15);
  CHECK(table.try_insert(chunk_by(8, 5)) == 20);
  CHECK(table.stats().inserts == 5);
}

TEST_CASE("table: after damage no key is reused, and remaining chunks are stored once") {
  const ScratchFolder folder;
  for (const std::uint64_t damaged : {1, 2, 4}) {  // the first chunk, a middle one, the last
    CAPTURE(damaged);
    const TableOptions options{.signature = small_signature(),
                               .capacity = 40,
                               .capacity_bytes = 8192,
                               .path = folder.file("replay" + std::to_string(damaged))};
    {
      Table table(options);
      for (std::uint64_t sequence = 1; sequence <= 4; ++sequence) table.try_insert(chunk_by(7, sequence));
    }
    {
      const std::size_t stride = (chunk_by(7, 1).size() + 63) / 64 * 64;
      std::fstream file(options.path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(8192 + (damaged - 1) * stride + 70));
      file.put('X');
    }
    std::uint64_t next_key = 0;
    {
      Table table(options);
      CHECK(table.stats().recovered == 15);
      CHECK(table.stats().lost == 5);
      CHECK(table.size() == 15);
      CHECK(table.try_insert(chunk_by(7, 3)));  // it is there, or a later one is
      CHECK(table.size() == 15);
      const auto key = table.try_insert(chunk_by(7, 5));
      REQUIRE(key);
      CHECK(*key >= 20);
      next_key = *key + 5;
      Buffers buffers(small_signature(), 40);
      REQUIRE(table.try_sample(buffers.view, 0));
      for (std::size_t i = 0; i < 40; ++i) CHECK(buffers.key[i] + 20 >= next_key);
    }
    Table table(options);
    CHECK(table.stats().recovered == 20);
    CHECK(table.stats().lost == 0);
    CHECK(table.try_insert(chunk_by(7, 6)) == next_key);
  }
}

TEST_CASE("table: a failed restore leaves its file empty, and keys start at 0") {
  const ScratchFolder folder;
  TableOptions options{.signature = small_signature(), .capacity = 20};
  {
    Table saved(options);
    for (std::uint64_t sequence = 1; sequence <= 9; ++sequence) saved.try_insert(chunk_by(7, sequence));
    saved.save(folder.file("snapshot"));
  }
  std::filesystem::resize_file(folder.file("snapshot"), std::filesystem::file_size(folder.file("snapshot")) - 1);
  options.path = folder.file("replay");
  for (int i = 0; i < 2; ++i) {  // the second time after a restart
    Table table(options);
    CHECK(table.stats().lost == 0);
    check_error(ErrorKind::kCorrupt, "cut short", [&] { table.restore(folder.file("snapshot")); });
    CHECK(table.stats().evicted == 0);
    if (i == 1) CHECK(table.try_insert(chunk_by(7, 3)) == 0);
  }
  Table table(options);
  CHECK(table.size() == 5);
  CHECK(table.stats().lost == 0);
  CHECK(table.try_insert(chunk_by(7, 4)) == 5);
}

TEST_CASE("table: a snapshot keeps the writers of its chunks, and a refused one adds none") {
  const ScratchFolder folder;
  const TableOptions options{.signature = small_signature(), .capacity = 20};
  Table saved(options);
  saved.try_insert(chunk_by(7, 3));
  saved.save(folder.file("snapshot"));
  Table restored(options);
  restored.restore(folder.file("snapshot"));
  CHECK(restored.try_insert(chunk_by(7, 3)) == 0);
  CHECK(restored.try_insert(chunk_by(7, 4)) == 5);

  std::filesystem::resize_file(folder.file("snapshot"), std::filesystem::file_size(folder.file("snapshot")) + 1);
  Table table(options);
  check_error(ErrorKind::kCorrupt, "snapshot", [&] { table.restore(folder.file("snapshot")); });
  CHECK(table.try_insert(chunk_by(7, 3)) == 0);
  CHECK(table.size() == 5);
}

TEST_CASE("table: the most recent writers are remembered") {
  Table table({.signature = small_signature(), .capacity = 10});  // a small one: 1,024
  for (std::uint64_t writer = 1; writer <= 1025; ++writer) REQUIRE(table.try_insert(chunk_by(writer, 1, 1)));
  CHECK(table.try_insert(chunk_by(2, 1, 1)) == 1);
  CHECK(table.try_insert(chunk_by(1, 1, 1)) == 1025);  // forgotten, so it is new
}

}  // namespace
}  // namespace headrace
