// Power is lost: of each page of a file, the disk has the version of the last flush or any later one.
#include <algorithm>
#include <map>
#include <set>

#include "arena_fixtures.h"
#include "core/table.h"
#include "trials.h"

namespace headrace {
namespace {

using fixtures::Buffers;
using fixtures::check_sound;
using fixtures::Content;
using fixtures::content_of;
using fixtures::kHeaderBytes;
using fixtures::kMarkAt;
using fixtures::MemoryFile;
using fixtures::Ring;
using fixtures::small_signature;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 64'000;  // of a ring
constexpr std::uint32_t kMostSteps = 150;

std::set<float> tags_of(const Ring& ring) {
  std::set<float> tags;
  for (const auto& chunk : ring.stored) tags.insert(ring.tag_of(chunk.offset));
  return tags;
}

std::uint64_t transitions_of(const Ring& ring) { return fixtures::transitions_of(content_of(ring)); }

// What a file holds, found in the plainest way: a chunk may begin at each multiple of 64 bytes, and of those that
// overlap the one with the highest key counts.
class NaiveScan {
 public:
  explicit NaiveScan(const std::string& image) {
    const std::span<const std::byte> ring = std::as_bytes(std::span(image)).subspan(kHeaderBytes);
    std::uint32_t mark = 0;
    std::memcpy(&mark, image.data() + kMarkAt, sizeof(mark));
    for (std::size_t at = 0; at + sizeof(ChunkHeader) <= ring.size(); at += 64) {
      ChunkHeader header;
      std::memcpy(&header, ring.data() + at, sizeof(header));
      if (header.magic != kChunkMagic || header.mark != mark || header.bytes > ring.size() - at) continue;
      const auto bytes = ring.subspan(at, header.bytes);
      try {
        check_transitions(small_signature(), bytes);
      } catch (const Error&) {
        continue;
      }
      const bool intact = header.checksum == chunk_checksum(small_signature(), bytes);
      if (intact) chunks_[header.first_key] = {at, header};
    }
    for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend();) {
      const bool overlaps = std::any_of(chunks_.rbegin(), chunk, [&](const auto& newer) {
        const auto& [at, header] = newer.second;
        const auto& [own, own_header] = chunk->second;
        return at < own + own_header.bytes && own < at + header.bytes;
      });
      chunk = overlaps ? std::make_reverse_iterator(chunks_.erase(std::prev(chunk.base()))) : std::next(chunk);
    }
  }

  // Transitions of the longest run of consecutive keys.
  std::uint64_t longest_run() const {
    std::uint64_t longest = 0, run = 0, next_key = 0;
    for (const auto& [key, chunk] : chunks_) {
      run = (key == next_key ? run : 0) + chunk.second.steps;
      next_key = key + chunk.second.steps;
      longest = std::max(longest, run);
    }
    return longest;
  }
  // Transitions that were stored when the newest of these chunks was.
  std::uint64_t stored_with_newest() const {
    if (chunks_.empty()) return 0;
    const ChunkHeader& newest = chunks_.rbegin()->second.second;
    return newest.first_key + newest.steps - newest.oldest_key;
  }

 private:
  std::map<std::uint64_t, std::pair<std::size_t, ChunkHeader>> chunks_;  // by first key
};

TEST_CASE("arena: of two versions of each page, all flushed chunks that were not overwritten are recovered") {
  std::mt19937 random(6);
  std::uint64_t kept = 0, losses = 0;
  for (int life = 0; life < testing::trials(60); ++life) {
    const MemoryFile file;
    Ring ring(kBytes, file.path());
    float tag = 0;
    const auto push = [&](unsigned count) {
      for (unsigned i = 0; i < count; ++i) ring.push(1 + random() % kMostSteps, ++tag);
    };
    push(1 + random() % 100);
    const std::string flushed = file.bytes();
    const std::set<float> then = tags_of(ring);
    push(1 + random() % (life % 2 == 0 ? 8 : 80));
    const std::string newer = file.bytes();
    std::set<float> durable;  // there all the time
    for (const float each : tags_of(ring)) {
      if (then.contains(each)) durable.insert(each);
    }
    for (int i = 0; i < 50; ++i) {
      CAPTURE(life);
      CAPTURE(i);
      std::string image = flushed;
      for (std::size_t at = 0; at < image.size(); at += kPage) {
        if (random() % 2 == 0) image.replace(at, kPage, newer, at, kPage);
      }
      const MemoryFile crashed(image);
      Ring found(kBytes, crashed.path());
      check_sound(found);
      const std::set<float> tags = tags_of(found);
      REQUIRE(tags.size() == found.stored.size());
      for (const float each : durable) REQUIRE(tags.contains(each));
      REQUIRE((found.stored.empty() || found.stored.back().first_key < found.next_key));
      kept += found.stored.size();
      losses += found.arena.lost() > 0;
      for (int more = 0; more < 20; ++more) found.push(1 + random() % kMostSteps, ++tag);
      check_sound(found);
    }
  }
  CHECK(kept > 0);
  CHECK(losses > 0);
}

// A table on the file has the transitions that the ring has, and samples what was pushed under their tags.
void check_table(const MemoryFile& file, std::uint64_t transitions) {
  Table table({.signature = small_signature(),
               .capacity = kBytes,
               .capacity_bytes = kBytes,
               .sampler = Sampler::kUniform,
               .path = file.path()});
  REQUIRE(table.size() == transitions);
  REQUIRE(table.stats().lost == 0);  // they were counted when the file was opened before
  if (transitions == 0) return;
  Buffers buffers(small_signature(), 64);
  REQUIRE(table.try_sample(buffers.view, 0));
  for (std::size_t i = 0; i < 64; ++i) {
    const auto tag = Buffers::value<float>(buffers.observation, 2 * i);
    const auto row = Buffers::value<float>(buffers.observation, 2 * i + 1);
    REQUIRE(Buffers::value<float>(buffers.next_observation, 2 * i) == tag);
    REQUIRE(Buffers::value<float>(buffers.next_observation, 2 * i + 1) == row + 1);
    REQUIRE(buffers.reward[i] == tag + row);
    REQUIRE(Buffers::value<std::int32_t>(buffers.action, i) == static_cast<std::int32_t>(tag + row));
  }
}

TEST_CASE("arena: of any versions of each page, no fewer transitions are recovered than the longest intact run has") {
  std::mt19937 random(16);
  std::uint64_t fewest = kBytes, most = 0;
  for (int life = 0; life < testing::trials(60); ++life) {
    CAPTURE(life);
    std::string disk;  // what it has after the last power loss
    float tag = 0;
    for (int loss = 0; loss < 8; ++loss) {
      CAPTURE(loss);
      const MemoryFile file(disk);
      std::vector<std::string> moments;
      std::uint64_t next_key = 0;
      {
        Ring ring(kBytes, file.path());
        moments.push_back(file.bytes());
        const bool in_recovery =
            !disk.empty() && random() % 4 == 0;  // power is lost again before its flush is complete
        if (in_recovery) moments.push_back(disk);
        for (unsigned i = 0, more = in_recovery ? 0 : 1 + random() % 4; i < more; ++i) {
          const unsigned pushes = random() % (i % 2 == 0 ? 60 : 6);
          for (unsigned push = 0; push < pushes; ++push) ring.push(1 + random() % kMostSteps, ++tag);
          moments.push_back(file.bytes());
        }
        next_key = ring.next_key;
      }
      for (int i = 0; i < 5; ++i) {
        CAPTURE(i);
        // One moment has most of the pages, so that there are long runs of each.
        const std::size_t usual = random() % moments.size(), others = 1 + random() % 40;
        disk = moments[usual];
        for (std::size_t at = 0; at < disk.size(); at += kPage) {
          if (random() % others == 0) disk.replace(at, kPage, moments[random() % moments.size()], at, kPage);
        }
        const NaiveScan whole(disk);
        const MemoryFile crashed(disk);
        std::uint64_t transitions = 0;
        {
          const Ring found(kBytes, crashed.path());
          check_sound(found);
          REQUIRE(tags_of(found).size() == found.stored.size());
          transitions = transitions_of(found);
          REQUIRE(transitions + kMostSteps > std::min(whole.longest_run(), whole.stored_with_newest()));
          REQUIRE((transitions > 0 || whole.longest_run() == 0));
          REQUIRE(found.arena.lost() <= next_key);
        }
        check_table(crashed, transitions);
        fewest = std::min(fewest, transitions);
        most = std::max(most, transitions);
      }
    }
  }
  CHECK(fewest < most / 2);
}

TEST_CASE("arena: if only the newest chunk of a whole round reached the disk, older chunks take the others' places") {
  const MemoryFile file;
  Ring ring(kBytes, file.path());
  float tag = 0;
  for (int i = 0; i < 200; ++i) ring.push(10, ++tag);
  const std::uint64_t flushed_transitions = transitions_of(ring);
  const std::uint64_t flushed_key = ring.next_key;
  const std::string flushed = file.bytes();
  while (ring.stored.front().first_key < flushed_key || ring.stored.back().offset < kBytes / 2) ring.push(10, ++tag);
  const std::string newer = file.bytes();
  const Ring::Stored newest = ring.stored.back();
  for (const bool header_is_newer : {false, true}) {
    CAPTURE(header_is_newer);
    std::string image = flushed;
    if (header_is_newer) image.replace(0, kPage, newer, 0, kPage);
    const std::size_t begin = (kHeaderBytes + newest.offset) / kPage * kPage;
    const std::size_t end = kHeaderBytes + newest.offset + ring.header_at(newest.offset).bytes;
    for (std::size_t at = begin; at < end; at += kPage) image.replace(at, kPage, newer, at, kPage);
    const MemoryFile crashed(image);
    const Ring found(kBytes, crashed.path());
    check_sound(found);
    CHECK(found.tag_of(found.stored.back().offset) == tag);
    CHECK(transitions_of(found) > flushed_transitions * 3 / 4);
    CHECK(transitions_of(found) <= flushed_transitions + 10);
    CHECK(found.arena.lost() > flushed_transitions * 3 / 4);
    CHECK(found.stored.front().first_key >= ring.next_key);
  }
}

TEST_CASE("arena: a chunk that lies in the priorities of an evicted one is recovered") {
  const MemoryFile file;
  Ring ring(3 * kPage, file.path());
  ring.push(111, 1);  // its priorities, which no checksum covers, begin in the first page and end in the second
  ring.push(100, 2);
  ring.push(88, 3);
  const std::string flushed = file.bytes();
  ring.push(100, 4);  // the first page
  ring.push(1, 5);
  REQUIRE(ring.stored.back().offset == kPage);
  REQUIRE(content_of(ring) == Content{{2, 100}, {3, 88}, {4, 100}, {5, 1}});
  std::string image = file.bytes();
  image.replace(kHeaderBytes, kPage, flushed, kHeaderBytes, kPage);
  const MemoryFile crashed(image);
  const Ring found(3 * kPage, crashed.path());
  CHECK(content_of(found) == Content{{2, 100}, {3, 88}, {5, 1}});
  CHECK(found.arena.lost() == 100);
  check_sound(found);
}

TEST_CASE("arena: priorities in a page that did not reach the disk are those of new chunks") {
  const MemoryFile file;
  Ring ring(3 * kPage, file.path());
  ring.push(110, 1);  // as above
  std::string image = file.bytes();
  REQUIRE(fixtures::priorities_of(ring.stored[0]) < kPage);
  for (std::size_t at = kHeaderBytes + kPage; at < kHeaderBytes + kPage + 64; ++at) image[at] = '\xff';  // not a number
  const MemoryFile crashed(image);
  const TableOptions options{
      .signature = small_signature(), .capacity = 500, .capacity_bytes = 3 * kPage, .path = crashed.path()};
  for (int start = 0; start < 2; ++start) {
    const Table table(options);
    CHECK(table.stats().recovered == 110);
    CHECK(table.stats().lost == 0);
    CHECK(table.stats().max_priority == 1);
    CHECK(table.stats().total_weight == doctest::Approx(110));
  }
}

}  // namespace
}  // namespace headrace
