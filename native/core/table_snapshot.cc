// Table: snapshots. A preamble, the signature's text, then every chunk from the oldest, each in its own block.
#include <cstring>
#include <string>
#include <type_traits>

#include "core/error.h"
#include "core/snapshot_file.h"
#include "core/table_impl.h"

namespace headrace {
namespace {

constexpr std::uint64_t kMagic = 0x31544f4853445248;  // "HRDSHOT1"
constexpr std::uint64_t kVersion = 3;

struct Preamble {
  std::uint64_t magic = kMagic;
  std::uint64_t version = kVersion;
  std::uint64_t capacity = 0;
  std::uint64_t capacity_bytes = 0;
  std::uint64_t oldest_key = 0;
  std::uint64_t next_key = 0;
  std::uint64_t place_of_oldest = 0;
  TableCounters counters;
  RateLimiter::State limiter;
  Random::State random{};
};
static_assert(std::is_trivially_copyable_v<Preamble>);

[[noreturn]] void differ(const std::string& path, const std::string& field, const std::string& held,
                         const std::string& wanted) {
  throw Error(ErrorKind::kMismatch, "snapshot " + path + ": " + field + " is " + held + ", but the table's is " +
                                        wanted + "; nothing was restored");
}

Preamble read_preamble(SnapshotReader& reader, const std::string& path, const TableOptions& options) {
  const std::span<const std::byte> block = reader.get();
  Preamble preamble;
  if (block.size() != sizeof(preamble)) reader.corrupt("its first block is not a preamble");
  std::memcpy(&preamble, block.data(), sizeof(preamble));
  if (preamble.magic != kMagic || preamble.version != kVersion) {
    reader.corrupt("it is not a snapshot of version " + std::to_string(kVersion));
  }
  const std::span<const std::byte> text = reader.get();
  const std::string signature(reinterpret_cast<const char*>(text.data()), text.size());
  if (signature != options.signature.encode()) differ(path, "signature", signature, options.signature.encode());
  if (preamble.capacity != options.capacity) {
    differ(path, "capacity", std::to_string(preamble.capacity), std::to_string(options.capacity));
  }
  return preamble;
}

ChunkHeader read_chunk(SnapshotReader& reader, const Signature& signature, std::uint64_t key,
                       std::span<const std::byte>& chunk) {
  chunk = reader.get();
  try {
    const ChunkHeader header = check_chunk(signature, chunk);
    if (header.first_key == key) return header;
  } catch (const Error& error) {
    reader.corrupt(error.what());
  }
  reader.corrupt("its chunks do not follow one another");
}

}  // namespace

void Table::Impl::save(const std::string& path) {
  Preamble preamble;
  std::size_t pin = 0;
  {
    const LockGuard lock(mutex);
    preamble.capacity = options.capacity;
    preamble.capacity_bytes = transitions.arena().capacity_bytes();
    preamble.oldest_key = transitions.oldest_key();
    preamble.next_key = transitions.next_key();
    preamble.place_of_oldest = transitions.place_of_oldest();
    preamble.counters = counters;
    preamble.limiter = limiter.state();
    preamble.random = random.state();
    pin = pins.add(preamble.oldest_key);
  }

  // The pin follows what is written, so that inserts may overwrite chunks that are safe.
  const auto move_pin = [&](std::uint64_t key) {
    bool wake = false;
    {
      const LockGuard lock(mutex);
      pins.move(pin, key);
      wake = unpinned_one();
    }
    if (wake) wakers.wake_all();
  };
  try {
    SnapshotWriter writer(path);
    writer.put(std::as_bytes(std::span(&preamble, 1)));
    const std::string signature = options.signature.encode();
    writer.put(std::as_bytes(std::span(signature)));
    std::vector<std::byte> copy;
    for (std::uint64_t key = preamble.oldest_key; key < preamble.next_key; move_pin(key)) {
      const ChunkHeader& chunk = stored().chunk_at(stored().slot_of(key));
      const auto* bytes = reinterpret_cast<const std::byte*>(&chunk);
      const std::size_t before_priorities = stored().layout_of(chunk).priority;
      copy.assign(bytes, bytes + before_priorities);
      reinterpret_cast<ChunkHeader*>(copy.data())->mark = 0;
      {
        const LockGuard lock(mutex);  // priorities alone may change
        copy.insert(copy.end(), bytes + before_priorities, bytes + chunk.bytes);
      }
      writer.put(copy);
      key += chunk.steps;
    }
    writer.finish();
  } catch (...) {
    move_pin(Pins::kFree);
    throw;
  }
  move_pin(Pins::kFree);
}

void Table::Impl::restore(const std::string& path) {
  insert_mutex.lock();
  const InsertTurn turn(*this);
  const LockGuard lock(mutex);
  if (transitions.next_key() != 0) {
    throw Error(ErrorKind::kInvalid, "restore() from " + path + " needs a table that never held transitions, but " +
                                         std::to_string(transitions.next_key()) + " transitions were inserted");
  }
  SnapshotReader reader(path);
  const Preamble preamble = read_preamble(reader, path, options);
  const std::size_t capacity_bytes = transitions.arena().capacity_bytes();
  const bool same_ring = preamble.capacity_bytes == capacity_bytes;
  if (same_ring && (preamble.place_of_oldest >= capacity_bytes || preamble.place_of_oldest % Arena::kAlignment != 0)) {
    throw Error(ErrorKind::kCorrupt, path + ": place_of_oldest is " + std::to_string(preamble.place_of_oldest) +
                                         ", which is not a valid place in an arena of " +
                                         std::to_string(capacity_bytes) + " bytes; nothing is restored");
  }
  transitions.start_at(preamble.oldest_key, same_ring ? preamble.place_of_oldest : 0);
  try {
    while (transitions.next_key() < preamble.next_key) {
      std::span<const std::byte> chunk;
      const ChunkHeader header = read_chunk(reader, options.signature, transitions.next_key(), chunk);
      check_fits(header);
      auto key = store(chunk, header);
      for (; !key; key = store(chunk, header)) unpinned.wait(mutex);  // for a snapshot of the empty table
      remember(header, *key);
    }
    reader.finish();
  } catch (...) {
    while (transitions.size() > 0) evict_oldest();
    transitions.release_forgotten();
    transitions.start_over();
    writers.clear();
    counters = {};
    throw;
  }
  counters = preamble.counters;
  limiter.restore(preamble.limiter);
  random.restore(preamble.random);
}

}  // namespace headrace
