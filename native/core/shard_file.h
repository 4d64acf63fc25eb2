// The file that keeps a shard: a page with its newest version, then two slots. Each slot has room for a whole image of
// the shard, its name and its options, with checksums. An image is written over the older slot, so that the other one
// stays whole whenever the process is killed. Nothing is synced meanwhile: what is written survives the process, but
// after a power loss a slot may be damaged, which its checksums show.
//
// The newest version is one word of mapped memory, stored with every update, so that the next server knows how many
// updates it has lost.
//
// Threading: set_latest() from any thread; the rest from one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/file_mapping.h"
#include "core/shard_image.h"
#include "core/shard_options.h"

namespace headrace {

class ShardFile {
 public:
  static constexpr std::size_t kMaxWorkers = 4096;  // of an image

  // Makes a file with its first image; one of that path is replaced as soon as this one is complete. Throws kSystem.
  ShardFile(std::string path, std::string_view name, const ShardOptions& options, const ShardImage& first);
  // Opens a file. Throws kSystem, and kCorrupt without a slot that looks whole; messages name the file.
  explicit ShardFile(std::string path);
  ~ShardFile();
  ShardFile(const ShardFile&) = delete;
  ShardFile& operator=(const ShardFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  const ShardOptions& options() const { return options_; }

  // Reads the newest whole image; `state` has options().state_bytes(). Returns a warning where a slot could not be
  // read, or an empty string. Throws kSystem, and kCorrupt if no slot is whole.
  std::string read(ShardImage& image);
  // Throws kSystem; the other slot's image then stays.
  void save(const ShardImage& image);
  std::optional<std::uint64_t> latest() const;  // nullopt if the word is damaged
  void set_latest(std::uint64_t version);
  void flush() const;  // everything is on the disk; throws kSystem

 private:
  struct Head;

  std::size_t slot_bytes() const;
  std::size_t begin_of(std::size_t slot) const;
  bool read_head(std::size_t slot, Head& head);
  bool read_body(std::size_t slot, const Head& head, ShardImage& image) const;
  void map();
  std::uint64_t& latest_word() const { return *reinterpret_cast<std::uint64_t*>(mapping_->data()); }
  void write(std::span<const std::byte> bytes, std::size_t at) const;
  bool read(std::span<std::byte> bytes, std::size_t at) const;
  [[noreturn]] void fail(const std::string& action, int error) const;

  const std::string path_;
  std::string name_;
  ShardOptions options_;
  int descriptor_ = -1;
  std::optional<FileMapping> mapping_;  // of the first page
  std::size_t newest_ = 1;              // slot of the last image
  std::uint64_t saves_ = 0;             // its number
};

}  // namespace headrace
