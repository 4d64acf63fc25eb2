#include "io/shared_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>

#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("shared file: data written under a path is read under it, as long as the creator keeps it") {
  std::string path;
  std::unique_ptr<SharedFile> opened;
  {
    const SharedFile made(10'000);
    path = made.path();
    opened = std::make_unique<SharedFile>(path);
    REQUIRE(opened->memory().size() == 10'000);
    std::memcpy(made.memory().data() + 9000, "model", 5);
  }
  CHECK(std::memcmp(opened->memory().data() + 9000, "model", 5) == 0);
  opened->memory()[0] = std::byte{1};  // writable, too
  CHECK(kind_of([&] { SharedFile{path}; }) == ErrorKind::kClosed);
}

TEST_CASE("shared file: a path that is not a shared file is refused") {
  std::string what;
  CHECK(kind_of([] { SharedFile{"/dev/null"}; }, &what) == ErrorKind::kInvalid);
  CHECK(what.find("\"/dev/null\" is not shared by its maker") != std::string::npos);
  CHECK(kind_of([] { SharedFile{"/proc"}; }) == ErrorKind::kSystem);
}
