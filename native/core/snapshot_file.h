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
  // The file appears, or replaces the former one, in finish(). Throws kSystem naming the file, as all do, also where it
  // is the file of an open table, or no file.
  explicit SnapshotWriter(std::string path);
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  void put(std::span<const std::byte> block);
  void finish();  // everything is on the disk

 private:
  void write(const void* bytes, std::size_t size);
  void lock(int descriptor) const;
  [[noreturn]] void refuse(const std::string& why) const;

  const std::string path_;
  const int replaced_;  // the former file, locked; -1: there is none
  const std::string draft_;
  int descriptor_ = -1;
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
