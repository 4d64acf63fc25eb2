#include "core/parameters.h"

#include <algorithm>
#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

std::vector<std::byte> blob(unsigned char value) { return std::vector<std::byte>(4, std::byte{value}); }

TEST_CASE("parameters: publish, and fetch if newer") {
  MemoryBudget budget;
  Parameters parameters(budget);
  CHECK(parameters.fetch("policy") == nullptr);
  CHECK(parameters.publish("policy", 0, blob(1)) == 1);
  CHECK(parameters.publish("policy", 7, blob(2)) == 7);
  CHECK(parameters.publish("policy", 0, blob(3)) == 8);
  CHECK(parameters.fetch("policy", 8) == nullptr);
  const auto fetched = parameters.fetch("policy", 7);
  REQUIRE(fetched != nullptr);
  CHECK(fetched->version == 8);
  CHECK(std::ranges::equal(fetched->bytes, blob(3)));
  CHECK(parameters.fetch("policy") == fetched);  // shared, not copied
  CHECK(parameters.fetch("other") == nullptr);
  CHECK(parameters.list().size() == 1);
}

TEST_CASE("parameters: versions must increase") {
  MemoryBudget budget;
  Parameters parameters(budget);
  parameters.publish("policy", 5, blob(1));
  check_error(ErrorKind::kRefused, "version 5", [&] { parameters.publish("policy", 5, blob(2)); });
  check_error(ErrorKind::kRefused, "policy", [&] { parameters.publish("policy", 4, blob(2)); });
  const auto last = ~std::uint64_t{0};
  check_error(ErrorKind::kRefused, "none above", [&] { parameters.publish("policy", last, blob(2)); });
  parameters.publish("other", last - 1, blob(1));
  check_error(ErrorKind::kRefused, "none above", [&] { parameters.publish("other", 0, blob(2)); });
  CHECK(std::ranges::equal(parameters.fetch("policy")->bytes, blob(1)));
}

TEST_CASE("parameters: the stored version with the stored bytes once more changes nothing") {
  MemoryBudget budget(4);
  Parameters parameters(budget);
  CHECK(parameters.publish("policy", 5, blob(1)) == 5);
  const auto stored = parameters.fetch("policy");
  CHECK(parameters.publish("policy", 5, blob(1)) == 5);  // although the budget holds no second one
  CHECK(parameters.fetch("policy") == stored);
  check_error(ErrorKind::kRefused, "version 4", [&] { parameters.publish("policy", 4, blob(1)); });
}

TEST_CASE("parameters: the budget is asked, and has the bytes back once no one reads them") {
  MemoryBudget budget(10);
  Parameters parameters(budget);
  parameters.publish("policy", 0, blob(1));
  auto reading = parameters.fetch("policy");
  parameters.publish("policy", 0, blob(2));
  CHECK(budget.used() == 8);
  check_error(ErrorKind::kRefused, "parameters \"other\" needs 4 bytes, but 8 of the memory budget of 10",
              [&] { parameters.publish("other", 0, blob(3)); });
  check_error(ErrorKind::kRefused, "policy", [&] { parameters.publish("policy", 0, blob(3)); });
  CHECK(parameters.list().size() == 1);
  CHECK(parameters.fetch("policy")->version == 2);
  reading.reset();
  CHECK(budget.used() == 4);
  CHECK(parameters.publish("policy", 0, blob(3)) == 3);
  CHECK(parameters.drop("") == 1);
  CHECK(budget.used() == 0);
}

TEST_CASE("parameters: many may publish one version with the same bytes, and one blob is stored") {
  MemoryBudget budget;
  Parameters parameters(budget);
  const std::vector<std::byte> bytes(1 << 16, std::byte{3});
  std::vector<std::thread> publishers;
  for (int i = 0; i < 4; ++i) {
    publishers.emplace_back([&] {
      for (std::uint64_t version = 1; version <= 200; ++version) {
        try {
          const std::uint64_t stored = parameters.publish("policy", version, bytes);
          CHECK(stored == version);
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::kRefused);  // another one is further already
          CHECK(parameters.fetch("policy")->version > version);
        }
      }
    });
  }
  for (auto& publisher : publishers) publisher.join();
  CHECK(parameters.fetch("policy")->version == 200);
  CHECK(budget.used() == bytes.size());
}

TEST_CASE("parameters: dropped by prefix") {
  MemoryBudget budget;
  Parameters parameters(budget);
  for (const char* name : {"a/policy", "a/target", "ab", "b/policy"}) parameters.publish(name, 3, blob(1));
  CHECK(parameters.drop("a/") == 2);
  CHECK(parameters.fetch("a/policy") == nullptr);
  CHECK(parameters.fetch("ab") != nullptr);
  CHECK(parameters.drop("a/") == 0);
  CHECK(parameters.publish("a/policy", 0, blob(1)) == 1);
}

TEST_CASE("parameters: a blob that no memory holds is refused") {
  MemoryBudget unlimited;
  Parameters parameters(unlimited);
  check_error(ErrorKind::kRefused, "at most", [&] { parameters.begin("policy", 1, std::uint64_t{1} << 63); });
}

TEST_CASE("parameters: as many names as the limit, and no more") {
  MemoryBudget budget;
  Parameters parameters(budget);
  for (std::size_t i = 0; i < Parameters::kMaxNames; ++i) parameters.publish(std::to_string(i), 0, blob(1));
  check_error(ErrorKind::kRefused, "4096", [&] { parameters.publish("one more", 0, blob(1)); });
  CHECK(parameters.publish("17", 0, blob(1)) == 2);
  CHECK(parameters.fetch("one more") == nullptr);
}

TEST_CASE("parameters: versions of a large blob use the same memory, unless it is being read") {
  constexpr std::size_t kBytes = 5 << 20;  // of a size that no other test has
  MemoryBudget budget;
  Parameters parameters(budget);
  const auto publish = [&](unsigned char value) {
    parameters.publish("policy", 0, std::vector<std::byte>(kBytes, std::byte{value}));
    return parameters.fetch("policy");
  };
  const auto first = publish(1);
  const std::byte* second = publish(2)->bytes.data();
  CHECK(second != first->bytes.data());
  CHECK(publish(3)->bytes.data() != first->bytes.data());
  CHECK(publish(4)->bytes.data() == second);
  const auto other = [&] { parameters.publish("other", 0, std::vector<std::byte>(kBytes / 2)); };
  other();
  other();
  for (unsigned char value = 5; value < 9; ++value) publish(value);
  const std::byte* last = parameters.fetch("other")->bytes.data();
  other();
  other();
  CHECK(parameters.fetch("other")->bytes.data() == last);
  publish(4);
  CHECK(std::ranges::count(first->bytes, std::byte{1}) == kBytes);
  CHECK(std::ranges::count(parameters.fetch("policy")->bytes, std::byte{4}) == kBytes);
}

TEST_CASE("parameters: readers see complete blobs while a writer publishes") {
  MemoryBudget budget;
  Parameters parameters(budget);
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) parameters.publish("policy", 0, blob(static_cast<unsigned char>(i)));
  });
  std::uint64_t version = 0;
  while (version < 2000) {
    const auto fetched = parameters.fetch("policy", version);
    if (!fetched) continue;
    REQUIRE(fetched->version > version);
    REQUIRE(std::ranges::equal(fetched->bytes, blob(static_cast<unsigned char>(fetched->version - 1))));
    version = fetched->version;
  }
  writer.join();
}

}  // namespace
}  // namespace headrace
