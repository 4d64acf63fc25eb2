#include "core/parameters.h"

#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

std::vector<std::byte> blob(unsigned char value) { return std::vector<std::byte>(4, std::byte{value}); }

TEST_CASE("parameters: publish, and fetch if newer") {
  Parameters parameters;
  CHECK(parameters.fetch("policy") == nullptr);
  CHECK(parameters.publish("policy", 0, blob(1)) == 1);
  CHECK(parameters.publish("policy", 7, blob(2)) == 7);
  CHECK(parameters.publish("policy", 0, blob(3)) == 8);
  CHECK(parameters.fetch("policy", 8) == nullptr);
  const auto fetched = parameters.fetch("policy", 7);
  REQUIRE(fetched != nullptr);
  CHECK(fetched->version == 8);
  CHECK(fetched->bytes == blob(3));
  CHECK(parameters.fetch("policy") == fetched);  // shared, not copied
  CHECK(parameters.fetch("other") == nullptr);
  CHECK(parameters.list().size() == 1);
}

TEST_CASE("parameters: versions rise") {
  Parameters parameters;
  parameters.publish("policy", 5, blob(1));
  check_error(ErrorKind::kRefused, "version 5", [&] { parameters.publish("policy", 5, blob(2)); });
  check_error(ErrorKind::kRefused, "policy", [&] { parameters.publish("policy", 4, blob(2)); });
  CHECK(parameters.fetch("policy")->bytes == blob(1));
}

TEST_CASE("parameters: readers see whole blobs while a writer publishes") {
  Parameters parameters;
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) parameters.publish("policy", 0, blob(static_cast<unsigned char>(i)));
  });
  std::uint64_t version = 0;
  while (version < 2000) {
    const auto fetched = parameters.fetch("policy", version);
    if (!fetched) continue;
    REQUIRE(fetched->version > version);
    REQUIRE(fetched->bytes == blob(static_cast<unsigned char>(fetched->version - 1)));
    version = fetched->version;
  }
  writer.join();
}

}  // namespace
}  // namespace headrace
