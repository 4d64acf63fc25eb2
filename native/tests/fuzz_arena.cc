// Opens a table on an arena file that was damaged: it must be refused, or hold chunks that are intact and whose keys
// follow one another, and sample from them.
//
// With HEADRACE_LIBFUZZER this is a libFuzzer target; otherwise main() runs a fixed number of seeded inputs. An input
// is a list of changes to a good file: bytes overwritten, moved, or cut off, checksums mended so that what lies behind
// them is reached.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/chunk.h"
#include "core/error.h"
#include "core/table.h"
#include "trials.h"

using namespace headrace;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeaderBytes = 2 * kPage;
constexpr std::size_t kRingBytes = 2048;
constexpr std::uint64_t kCapacity = 48;
constexpr std::uint32_t kBatch = 16;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz_arena: %s\n", what);
  std::abort();
}

Signature small_signature() { return {{"float32", {2}}, {"int32", {}}, 2}; }

// A file in memory that can be opened by its path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(memfd_create("arena", MFD_CLOEXEC)) { require(descriptor_ >= 0, "no memory file"); }
  explicit MemoryFile(const Bytes& bytes) : MemoryFile() {
    require(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "no memory for a file");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  Bytes bytes() const {
    Bytes all(static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_END)));
    require(pread(descriptor_, all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()), "a file can't be read");
    return all;
  }

 private:
  int descriptor_;
};

TableOptions options_at(const std::string& path, Sampler sampler) {
  return {.signature = small_signature(),
          .capacity = kCapacity,
          .capacity_bytes = kRingBytes,
          .sampler = sampler,
          .path = path};
}

Bytes chunk_of(std::uint32_t steps, std::uint64_t sequence) {
  const ChunkLayout layout = ChunkLayout::of(small_signature(), steps, steps + 1);
  Bytes chunk(layout.bytes);
  ChunkHeader header;
  header.bytes = layout.bytes;
  header.steps = steps;
  header.rows = steps + 1;
  header.writer = 7;
  header.sequence = sequence;
  std::memcpy(chunk.data(), &header, sizeof(header));
  for (std::uint32_t t = 0; t < steps; ++t) {
    const std::uint32_t last = t + 1;
    const float one = 1;
    std::memcpy(chunk.data() + layout.first + t * sizeof(t), &t, sizeof(t));
    std::memcpy(chunk.data() + layout.last + t * sizeof(last), &last, sizeof(last));
    std::memcpy(chunk.data() + layout.priority + t * sizeof(one), &one, sizeof(one));
  }
  return chunk;
}

// Good files: empty, with one chunk, nearly full, and wrapped.
std::vector<Bytes> good_files() {
  std::vector<Bytes> files;
  for (const std::uint64_t chunks : {0, 1, 6, 9, 40}) {
    const MemoryFile file;
    {
      Table table(options_at(file.path(), Sampler::kPrioritized));
      for (std::uint64_t i = 0; i < chunks; ++i) table.try_insert(chunk_of(1 + i * 5 % 8, i));
    }
    files.push_back(file.bytes());
  }
  return files;
}

template <class T>
T load(const Bytes& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// Of the chunk at `place`, with its mark, or of a copy of the file's header, where the lengths that it names lie within
// the file.
void mend_checksum(Bytes& bytes, std::size_t place) {
  if (bytes.size() < kHeaderBytes + kRingBytes) return;
  const std::span<const std::byte> all = bytes;
  std::uint32_t checksum = 0;
  if (place <
      kHeaderBytes) {  // magic u64, two keys u64, capacity u64, checksum u32 of all but itself and the keys, mark u32
    const std::size_t copy = place / kPage * kPage;
    const std::uint32_t of_magic = crc32c(all.subspan(copy, 8));
    const std::uint32_t of_numbers = crc32c(all.subspan(copy + 24, 8), of_magic);
    checksum = crc32c(all.subspan(copy + 36, kPage - 36), of_numbers);
    std::memcpy(bytes.data() + copy + 32, &checksum, sizeof(checksum));
    return;
  }
  place = place / Arena::kAlignment * Arena::kAlignment;
  const auto header = load<ChunkHeader>(bytes, place);
  if (header.steps > kMaxSteps || header.rows > kMaxSteps) return;
  const ChunkLayout layout = ChunkLayout::of(small_signature(), header.steps, header.rows);
  if (layout.bytes > bytes.size() - place) return;
  std::memcpy(bytes.data() + place + offsetof(ChunkHeader, mark), bytes.data() + kPage + 36, sizeof(header.mark));
  checksum = chunk_checksum(small_signature(), all.subspan(place, layout.bytes));
  std::memcpy(bytes.data() + place + offsetof(ChunkHeader, checksum), &checksum, sizeof(checksum));
}

// Reads changes of 8 bytes each: what, two places, and a value.
void damage(Bytes& bytes, std::span<const std::uint8_t> changes) {
  for (; changes.size() >= 8 && !bytes.empty(); changes = changes.subspan(8)) {
    std::array<std::uint16_t, 3> words;
    std::memcpy(words.data(), changes.data() + 2, sizeof(words));
    const std::size_t at = words[0] % bytes.size(), other = words[1] % bytes.size();
    switch (changes[0] % 8) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        std::memset(bytes.data() + at, changes[1], std::min<std::size_t>(words[2] % 256, bytes.size() - at));
        break;
      case 2: {
        const std::size_t size = std::min<std::size_t>(words[2] % 512, bytes.size() - std::max(at, other));
        std::memmove(bytes.data() + at, bytes.data() + other, size);
        break;
      }
      case 3:
        if (bytes.size() > 24) bytes[8 + at % 16] = std::byte{changes[1]};  // the oldest key and the next
        break;
      case 4:
      case 5:
        mend_checksum(bytes, at);
        break;
      default:
        bytes[at] = std::byte{changes[1]};
    }
  }
}

// What an arena recovers: each chunk intact, none over another, each key one more than the last. Opened again, it is
// the same, and nothing counts as lost any more.
std::uint64_t check_chunks(const std::string& path) {
  std::vector<std::size_t> offsets;
  std::uint64_t steps = 0, next_key = 0;
  {
    const Arena arena(small_signature(), kRingBytes, path);
    offsets = arena.recovered();
    std::vector<bool> taken(kRingBytes / Arena::kAlignment);
    for (const std::size_t offset : offsets) {
      ChunkHeader header;
      require(offset % Arena::kAlignment == 0 && offset < kRingBytes, "a chunk is at no place");
      std::memcpy(&header, arena.at(offset), sizeof(header));
      require(header.magic == kChunkMagic && header.bytes <= kRingBytes - offset, "a chunk is not in the ring");
      const std::span<const std::byte> chunk(arena.at(offset), header.bytes);
      Bytes sent(chunk.begin(), chunk.end());
      reinterpret_cast<ChunkHeader*>(sent.data())->mark = 0;
      check_chunk(small_signature(), sent);
      require(header.checksum == chunk_checksum(small_signature(), header, chunk), "a chunk is not intact");
      require(steps == 0 || header.first_key == next_key, "keys do not follow one another");
      next_key = header.first_key + header.steps;
      steps += header.steps;
      for (std::size_t at = offset; at < offset + header.bytes; at += Arena::kAlignment) {
        require(!taken[at / Arena::kAlignment], "chunks overlap");
        taken[at / Arena::kAlignment] = true;
      }
    }
    require(steps == 0 || arena.next_key() == next_key, "the next key is another");
    next_key = arena.next_key();
  }
  const Arena again(small_signature(), kRingBytes, path);
  require(again.recovered() == offsets && again.next_key() == next_key && again.lost() == 0, "a restart changes it");
  return steps;
}

void use(Table& table) {
  std::array<std::byte, kBatch * 16> observation, next_observation;
  std::array<std::byte, kBatch * 4> action;
  std::array<float, kBatch> reward, discount, weight, probability;
  std::array<std::uint64_t, kBatch> key, version;
  const BatchView batch{kBatch,          observation.data(), next_observation.data(), action.data(), reward.data(),
                        discount.data(), weight.data(),      probability.data(),      key.data(),    version.data()};
  for (int i = 0; i < 3; ++i) {
    require(table.try_sample(batch, 0.5) == (table.size() > 0), "sampling fails");
    if (table.size() > 0) {
      for (const float value : probability) require(std::isfinite(value) && value >= 0, "a probability is none");
      require(table.update_priorities(key, std::array<float, kBatch>{}) == kBatch, "keys that were drawn are unknown");
    }
    for (std::uint64_t sequence = 0; sequence < 5; ++sequence) table.try_insert(chunk_of(8, 1'000'000'000 + sequence));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<Bytes> kGood = good_files();
  if (size == 0) return 0;
  Bytes bytes = kGood[data[0] % kGood.size()];
  damage(bytes, std::span(data, size).subspan(1));
  const MemoryFile file(bytes);
  const auto options = options_at(file.path(), data[0] & 0x80 ? Sampler::kUniform : Sampler::kPrioritized);
  try {
    const std::uint64_t recovered = check_chunks(file.path());
    std::uint64_t size = 0;
    {
      Table table(options);
      require(table.size() <= kCapacity && table.size() <= recovered, "a table has more than its file");
      require(recovered > kCapacity || table.size() == recovered, "a table has less than its file");
      use(table);
      size = table.size();
    }
    require(check_chunks(file.path()) == size, "sizes differ");
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kMismatch, error.what());
  }
  return 0;
}

#ifndef HEADRACE_LIBFUZZER
int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : headrace::testing::trials(10000);
  std::mt19937_64 random(20240608);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::uint8_t> input(1 + 8 * (random() % 8));
    for (auto& byte : input) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("fuzz_arena: %d inputs\n", rounds);
  return 0;
}
#endif
