#include "core/writers.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

TEST_CASE("writers: a sequence that is not above the last is repeated") {
  Writers writers(10);
  CHECK(writers.repeated(7, 0) == nullptr);
  writers.remember({7, 0, 100});
  REQUIRE(writers.repeated(7, 0) != nullptr);
  CHECK(writers.repeated(7, 1) == nullptr);
  CHECK(writers.repeated(8, 0) == nullptr);
  writers.remember({7, 5, 150});
  CHECK(writers.repeated(7, 3)->key == 150);
  CHECK(writers.size() == 1);
  writers.clear();
  CHECK(writers.find(7) == nullptr);
}

TEST_CASE("writers: the least recent are forgotten") {
  Writers writers(3);
  for (std::uint64_t writer = 1; writer <= 3; ++writer) writers.remember({writer, 1, writer});
  writers.remember({1, 2, 10});
  writers.remember({4, 1, 11});  // 2 has been silent for longest
  CHECK(writers.size() == 3);
  CHECK(writers.find(2) == nullptr);
  CHECK(writers.find(1)->sequence == 2);
  writers.forget_longest_silent();
  CHECK(writers.find(3) == nullptr);
  CHECK(writers.find(4)->key == 11);
}

TEST_CASE("writers: writer 0 means none") {
  const Writers writers(3);
  CHECK(writers.repeated(0, 0) == nullptr);
}

}  // namespace
}  // namespace headrace
