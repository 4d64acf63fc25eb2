// A file of checked blocks: each carries its length and a checksum. Used by table snapshots.
//
// Threading: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace {

class SnapshotWriter {
 public:
  explicit SnapshotWriter(std::string path);  // creates or truncates; throws kSystem naming the file, as all do
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  void put(std::span<const std::byte> block);
  void finish();  // everything is on the disk

 private:
  void write(const void* bytes, std::size_t size);

  std::string path_;
  int descriptor_;
};

class SnapshotReader {
 public:
  explicit SnapshotReader(std::string path);  // throws kSystem naming the file
  ~SnapshotReader();
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  // The next block, valid until the next call. Throws kCorrupt naming the file where it is cut short or damaged.
  std::span<const std::byte> get();
  void finish();  // throws kCorrupt if anything is left
  [[noreturn]] void corrupt(const std::string& what) const;

 private:
  void read(void* bytes, std::size_t size);

  std::string path_;
  int descriptor_;
  std::uint64_t left_ = 0;
  std::vector<std::byte> block_;
};

}  // namespace headrace
