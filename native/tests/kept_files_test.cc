#include "core/kept_files.h"

#include <filesystem>
#include <fstream>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::ScratchFolder;

TEST_CASE("kept files: names are a stem, a number and an ending") {
  const auto found = parse_kept_file("table-", "table-12.arena");
  REQUIRE(found);
  CHECK(found->first == 12);
  CHECK(found->second == ".arena");
  CHECK(parse_kept_file("shard-", "shard-1.slots.orphan.2")->second == ".slots.orphan.2");
  for (const char* other : {"table-", "table-x.arena", "table-07.arena", "table--1.arena", "tables-1.arena", "",
                            "table-4611686018427387904.arena", "table-99999999999999999999.arena"}) {
    CAPTURE(other);
    CHECK(!parse_kept_file("table-", other));
  }
}

TEST_CASE("kept files: a file is set aside under a name that is free") {
  const ScratchFolder folder;
  const std::string path = folder.file("shard-1.slots");
  for (const char* content : {"a", "b", "c"}) {
    std::ofstream(path) << content;
    const auto notice = set_aside(path, "is damaged");
    CHECK(notice.starts_with(path + " is damaged; it is set aside as "));
    CHECK(!std::filesystem::exists(path));
  }
  for (const char* ending : {".orphan", ".orphan.2", ".orphan.3"}) CHECK(std::filesystem::exists(path + ending));
  CHECK(set_aside(path, "is damaged").find("can't be set aside") != std::string::npos);
}

}  // namespace
}  // namespace headrace
