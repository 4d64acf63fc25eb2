// The directory in which a server keeps its tables: `table-N.arena` holds a table's experience and `table-N.settings`
// its name and options. Numbers rise and are never used again, so a new table never meets a file that is still mapped.
//
// A table exists from the moment its settings file has its final name, after the arena is on the disk. It is dropped
// from the moment this file is renamed to `table-N.settings.dropped`; then the arena is removed, and that file last. An
// interrupted drop is completed at the next start. Every other file with such a name (an arena without settings,
// unfinished settings) is renamed to `<file>.orphan` at the start: the store deletes only dropped tables.
//
// Threading: not thread-safe; the owner (Server) calls from one thread at a time. A lock on the directory keeps other
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
  // are damaged or whose arena is missing: nothing is set aside then.
  std::vector<Kept> recover();
  // What recover() set aside or could not remove: a line each, for the user.
  const std::vector<std::string>& notices() const { return notices_; }
  std::string next_arena();  // a path that was never used before
  // The table made of `options`, whose path came from next_arena(), exists from now on. Throws kSystem.
  void keep(const std::string& name, const TableOptions& options);
  // The table is dropped from now on, even if the process ends here; throws kSystem, and then it is kept. Without
  // settings there is nothing to do.
  void forget(const std::string& arena);
  void remove(const std::string& arena);  // forget(), and removes the files; throws kSystem

 private:
  Kept read(const std::string& settings) const;  // `path` is left empty
  Kept read(std::uint64_t number) const;
  bool finish_drop(std::uint64_t number);  // false where the decision to drop it can't be read
  std::string path_of(std::uint64_t number, const char* ending) const;
  void sync() const;  // names that were made or removed are on the disk
  [[noreturn]] void fail(const std::string& path, const char* action) const;

  const std::string directory_;
  int descriptor_ = -1;  // of the directory, with the lock
  std::uint64_t next_number_ = 1;
  std::vector<std::string> notices_;
};

}  // namespace headrace
