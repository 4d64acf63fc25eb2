#include "core/shard_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::ScratchFolder;

constexpr std::size_t kSize = 2000;  // parameters
constexpr std::size_t kPage = 4096;

ShardOptions momentum() {
  return {.size = kSize, .optimizer = {.kind = OptimizerOptions::Kind::kMomentum, .learning_rate = 0.5}};
}

struct Image {
  explicit Image(float value = 0, std::uint64_t version = 0)
      : values(momentum().state_bytes() / sizeof(float), value),
        image{version, version, 0, {}, std::as_writable_bytes(std::span(values))} {}
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  std::vector<float> values;
  ShardImage image;
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// A file with images 1 and 2, of as many updates and of that value everywhere; 2 is in the second slot.
std::string file_of_two(const ScratchFolder& folder) {
  const std::string path = folder.file("shard-1.slots");
  ShardFile file(path, "run/model/0", momentum(), Image(1, 1).image);
  file.save(Image(2, 2).image);
  file.set_latest(7);
  return path;
}

std::size_t slot_bytes(const std::string& bytes) { return (bytes.size() - kPage) / 2; }

TEST_CASE("shard file: an image is read back whole") {
  const ScratchFolder folder;
  const std::string path = folder.file("shard-1.slots");
  Image first(0.5f, 40);
  first.image.steps = 30;
  first.image.lost = 9;
  first.image.workers = {{.name = 5, .heard = 6, .sequence = 7, .version = 8, .staleness = 2, .verdict = 1},
                         {.name = 9}};
  { const ShardFile file(path, "a run/with\nany/bytes\xff", momentum(), first.image); }
  CHECK(!std::filesystem::exists(path + ".new"));
  ShardFile file(path);
  CHECK(file.name() == "a run/with\nany/bytes\xff");
  CHECK(file.options() == momentum());
  CHECK(file.latest() == 40);
  Image found;
  CHECK(file.read(found.image).empty());
  CHECK(found.values == first.values);
  CHECK(found.image.version == 40);
  CHECK(found.image.steps == 30);
  CHECK(found.image.lost == 9);
  REQUIRE(found.image.workers.size() == 2);
  CHECK(found.image.workers[0].sequence == 7);
  CHECK(found.image.workers[0].staleness == 2);
  CHECK(found.image.workers[0].verdict == 1);
  CHECK(found.image.workers[1].name == 9);
}

TEST_CASE("shard file: the newest of many images counts, also after it was opened again") {
  const ScratchFolder folder;
  const std::string path = folder.file("shard-1.slots");
  { const ShardFile file(path, "model/0", momentum(), Image(0, 0).image); }
  for (std::uint64_t i = 1; i < 10; i += 2) {
    ShardFile file(path);
    Image found;
    CHECK(file.read(found.image).empty());
    CHECK(found.image.version == i - 1);
    for (const std::uint64_t version : {i, i + 1}) file.save(Image(static_cast<float>(version), version).image);
    CHECK(file.read(found.image).empty());
    CHECK(found.values == std::vector<float>(found.values.size(), static_cast<float>(i + 1)));
  }
}

TEST_CASE("shard file: where a slot is damaged, the other one is used, and a warning says so") {
  const ScratchFolder folder;
  const std::string path = file_of_two(folder), whole = contents(path);
  const std::size_t slot = slot_bytes(whole), newest = kPage + slot;
  const auto check = [&](std::uint64_t version, const std::string& said) {
    ShardFile file(path);
    Image found;
    const auto warning = file.read(found.image);
    CHECK_MESSAGE(warning.find(said) != std::string::npos, warning);
    CHECK(warning.empty() == said.empty());
    CHECK(found.image.version == version);
    CHECK(found.values == std::vector<float>(found.values.size(), static_cast<float>(version)));
    CHECK(file.latest() == 7);
    file.save(Image(3, 3).image);  // over the damaged one
    CHECK(ShardFile(path).read(found.image).empty());
    CHECK(found.image.version == 3);
  };
  for (const std::size_t at : {newest + 8, newest + 64, newest + slot - kPage, newest + kPage - 1}) {
    CAPTURE(at);
    std::string bytes = whole;
    bytes[at] ^= 1;
    write(path, bytes);
    check(1, "damaged");
  }
  std::string older = whole;
  older[kPage + slot - kPage] ^= 1;
  write(path, older);
  check(2, "");  // the older one was not needed
  std::string unfinished = whole;
  unfinished.replace(newest, 8, 8, '\0');
  write(path, unfinished);
  check(1, "");  // as if it had never been written
  {
    write(path, whole);
    ShardFile file(path);
    Image found;
    file.read(found.image);
    file.save(Image(3, 3).image);
  }
  std::string third = contents(path);
  third.replace(kPage, 8, 8, '\0');  // while the third image was written
  write(path, third);
  Image found;
  const auto warning = ShardFile(path).read(found.image);
  CHECK_MESSAGE(warning.find("not finished") != std::string::npos, warning);
  CHECK(found.image.version == 2);
}

TEST_CASE("shard file: without a whole slot, and of another size, it is refused") {
  const ScratchFolder folder;
  const std::string path = file_of_two(folder), whole = contents(path);
  const std::size_t slot = slot_bytes(whole);
  const auto refused = [&](const std::string& bytes, const std::string& said) {
    write(path, bytes);
    check_error(ErrorKind::kCorrupt, said, [&] {
      ShardFile file(path);
      Image found;
      file.read(found.image);
    });
  };
  std::string both = whole;
  both[kPage + slot - kPage] ^= 1;
  both[kPage + 2 * slot - kPage] ^= 1;
  refused(both, "no slot that is whole");
  both = whole;
  both[kPage + 20] ^= 1;
  both[kPage + slot + 20] ^= 1;
  refused(both, "no slot that is whole");
  refused(whole.substr(0, whole.size() - kPage), "required");
  refused(whole + "x", "required");
  refused(whole.substr(0, 2 * kPage), "");
  refused("", "no slot");
  refused("mine", "no slot");
  refused(std::string(100'000, '\0'), "no slot");
  check_error(ErrorKind::kSystem, "opened", [&] { ShardFile(folder.file("missing")); });
}

TEST_CASE("shard file: a damaged version is not believed") {
  const ScratchFolder folder;
  const std::string path = file_of_two(folder);
  std::string bytes = contents(path);
  bytes[3] ^= 4;
  write(path, bytes);
  ShardFile file(path);
  CHECK(file.latest() == std::nullopt);
  file.set_latest(9);
  CHECK(ShardFile(path).latest() == 9);
  file.set_latest(~std::uint64_t{0});  // which has no room
  CHECK(file.latest() == std::nullopt);
}

TEST_CASE("shard file: any damage leaves one of its images, or none") {
  const ScratchFolder folder;
  const std::string path = file_of_two(folder), whole = contents(path);
  std::mt19937 random(5);
  int read = 0;
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    std::string bytes = whole;
    for (int i = 0; i <= round % 8; ++i) {
      const std::size_t at = random() % bytes.size(),
                        length = std::min<std::size_t>(random() % 9000, bytes.size() - at);
      if (random() % 4 == 0) {
        for (std::size_t j = 0; j < length; ++j) bytes[at + j] = static_cast<char>(random());
      } else {  // where the heads are
        bytes[(random() % 3) * (kPage + slot_bytes(whole)) % bytes.size() + random() % 64] =
            static_cast<char>(random());
      }
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    write(path, bytes);
    try {
      ShardFile file(path);
      Image found;
      if (file.options().state_bytes() != found.image.state.size()) continue;
      file.read(found.image);
      ++read;
      REQUIRE((found.image.version == 1 || found.image.version == 2));
      REQUIRE(found.values == std::vector<float>(found.values.size(), static_cast<float>(found.image.version)));
    } catch (const Error& error) {
      REQUIRE(error.kind() == ErrorKind::kCorrupt);
    }
  }
  CHECK(read > 30);
}

TEST_CASE("shard file: one that can't be made leaves the file it was to replace") {
  const ScratchFolder folder;
  const std::string path = file_of_two(folder), whole = contents(path);
  std::filesystem::create_directory(path + ".new");
  check_error(ErrorKind::kSystem, "made", [&] { ShardFile(path, "other", momentum(), Image(5, 5).image); });
  CHECK(contents(path) == whole);
}

}  // namespace
}  // namespace headrace
