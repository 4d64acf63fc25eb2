// The directory in which a server keeps its tables: `table-N.arena` holds a table's experience and `table-N.settings`
// its name and options. Numbers rise, so that a file which is still mapped by whoever holds a dropped table is never
// met again. A table exists once its settings do: they are written last, whole or not at all, and removed first; an
// arena without settings is what a process left that was killed in between, and goes at the next start.
//
// Threading: none of its own; the owner (Server) calls from one thread at a time. A lock on the directory keeps other
// processes out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/table.h"

namespace headrace {

class TableStore {
 public:
  struct Kept {
    std::string name;
    TableOptions options;  // `path` is the arena
    std::string settings;  // path of the file, for messages
  };

  // Makes the directory if it is missing. kSystem, or kRefused where another server has it.
  explicit TableStore(std::string directory);
  ~TableStore();
  TableStore(const TableStore&) = delete;
  TableStore& operator=(const TableStore&) = delete;

  // What is kept, in the order in which it was made; to be called first. kCorrupt, naming the file, for settings that
  // are damaged or whose arena is missing.
  std::vector<Kept> recover();
  std::string next_arena();  // a path that was never used before
  // The table made of `options`, whose path came from next_arena(), exists from now on. Throws kSystem.
  void keep(const std::string& name, const TableOptions& options);
  void forget(
      const std::string& arena);  // the settings, where there are some; throws kSystem, and then nothing is gone
  void remove(const std::string& arena);  // these and the arena, on the disk too; throws kSystem

 private:
  Kept read(std::uint64_t number) const;
  std::string path_of(std::uint64_t number, const char* ending) const;
  void sync() const;  // names that were made or removed are on the disk
  [[noreturn]] void fail(const std::string& path, const char* action) const;

  const std::string directory_;
  int descriptor_ = -1;  // of the directory, with the lock
  std::uint64_t next_number_ = 1;
};

}  // namespace headrace
