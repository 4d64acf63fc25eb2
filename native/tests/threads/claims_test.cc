#include "core/claims.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/server.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::ScratchFolder;
using std::chrono::milliseconds;

constexpr milliseconds kMinute{60'000};

// A clock that a test moves on.
struct Watch {
  std::chrono::steady_clock::time_point now = {};
  Claims::Clock clock() {
    return [this] { return now; };
  }
};

std::string directory_of(const ScratchFolder& folder) {
  const std::string file = folder.file("claims");
  return file.substr(0, file.rfind('/'));
}

std::string content_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST_CASE("claims: one owner at a time, as long as it holds") {
  Claims claims;
  auto learner = claims.claim("run/learner", 1);
  const auto actor = claims.claim("run/actor/0", 2);
  CHECK(claims.held() == std::vector<std::string>{"run/actor/0", "run/learner"});
  check_error(ErrorKind::kRefused, "run/learner", [&] { claims.claim("run/learner", 2); });
  learner.reset();
  CHECK(claims.held() == std::vector<std::string>{"run/actor/0"});
  CHECK(claims.claim("run/learner", 2));
}

TEST_CASE("claims: if an owner claims again, only its new hold counts") {
  Claims claims;
  auto lost = claims.claim("learner", 7);
  auto again = claims.claim("learner", 7);
  lost.reset();  // the server notices late that the first connection is gone
  CHECK(claims.held().size() == 1);
  check_error(ErrorKind::kRefused, "learner", [&] { claims.claim("learner", 8); });
  again.reset();
  CHECK(claims.held().empty());
}

TEST_CASE("claims: a hold may outlive them") {
  auto claims = std::make_unique<Claims>();
  auto hold = claims->claim("learner", 1);
  claims.reset();
  hold.reset();
}

TEST_CASE("claims: as many names as the limit, and no more") {
  Claims claims;
  std::vector<std::shared_ptr<Claims::Hold>> holds;
  for (std::size_t i = 0; i < Claims::kMaxNames; ++i) holds.push_back(claims.claim(std::to_string(i), 1));
  check_error(ErrorKind::kRefused, "65536", [&] { claims.claim("one more", 1); });
  CHECK(claims.claim("3", 1));                    // held already
  CHECK(claims.size() == Claims::kMaxNames - 1);  // and that hold is gone again
  CHECK(claims.held(2) == std::vector<std::string>{"0", "1"});
}

TEST_CASE("claims: a reserved name can be claimed only by its owner or a later start of its run") {
  Watch watch;
  Claims claims(watch.clock());
  auto lost = claims.claim("learner", 1, 70, kMinute);
  check_error(ErrorKind::kRefused, "another owner holds it", [&] { claims.claim("learner", 2, 70, kMinute); });
  lost.reset();
  CHECK(claims.held().empty());
  watch.now += kMinute / 2;
  check_error(ErrorKind::kRefused, "for another 30 s", [&] { claims.claim("learner", 2, 0, kMinute); });
  check_error(ErrorKind::kRefused, "for another 30 s", [&] { claims.claim("learner", 2, 71, kMinute); });
  auto again = claims.claim("learner", 1, 70, kMinute);
  CHECK(claims.held() == std::vector<std::string>{"learner"});
  again.reset();
  auto resumed = claims.claim("learner", 3, 70, kMinute);
  resumed.reset();
  watch.now += kMinute;
  CHECK(claims.claim("learner", 2));
  claims.claim("learner", 1, 0, kMinute);  // without a run
  check_error(ErrorKind::kRefused, "for another 60 s", [&] { claims.claim("learner", 2, 0, kMinute); });
}

TEST_CASE("claims: each reservation ends at its own time") {
  Watch watch;
  Claims claims(watch.clock());
  claims.claim("first", 1, 70, kMinute);
  claims.claim("second", 1, 70, 2 * kMinute);
  for (const char* name : {"first", "second"}) {
    watch.now += kMinute;
    CHECK(claims.claim(name, 2));
  }
}

TEST_CASE("claims: a name that is given back is free at once") {
  Claims claims;
  auto hold = claims.claim("learner", 1, 70, kMinute);
  hold = claims.claim("learner", 1, 70);
  hold.reset();
  CHECK(claims.claim("learner", 2));
}

TEST_CASE("claims: a directory keeps names for the next start") {
  const ScratchFolder folder;
  Watch watch;
  {
    Claims claims(watch.clock());
    CHECK(claims.keep_in(directory_of(folder), false).empty());
    const auto learner = claims.claim(" one/learner", 1, 70, kMinute);
    const auto actor = claims.claim("one/actor/0", 2);
    auto ended = claims.claim("two/learner", 3, 71, kMinute);
    ended = claims.claim("two/learner", 3, 71);
  }
  watch.now += 100 * kMinute;
  Claims claims(watch.clock());
  CHECK(claims.keep_in(directory_of(folder), true).empty());
  CHECK(claims.held().empty());
  CHECK(claims.claim("one/actor/0", 9));
  CHECK(claims.claim("two/learner", 9));
  check_error(ErrorKind::kRefused, "for another 60 s", [&] { claims.claim(" one/learner", 9, 0, kMinute); });
  SUBCASE("its owner has it") { CHECK(claims.claim(" one/learner", 1, 70, kMinute)); }
  SUBCASE("so has a later start of its run") { CHECK(claims.claim(" one/learner", 5, 70, kMinute)); }
  SUBCASE("and others, once the time is up") {
    watch.now += kMinute;
    CHECK(claims.claim(" one/learner", 9, 0, kMinute));
  }
}

TEST_CASE("claims: a damaged file reserves nothing and gives a warning") {
  const ScratchFolder folder;
  const std::string file = folder.file("claims");
  {
    Claims claims;
    claims.keep_in(directory_of(folder), false);
    const auto learner = claims.claim("learner", 1, 70, kMinute);
  }
  const std::string whole = content_of(file);
  REQUIRE(whole.find(" learner\n") != std::string::npos);
  std::string changed = whole;
  changed[whole.find("learner")] = 'L';
  for (const std::string& text : {std::string(), std::string("\n"), changed, whole.substr(0, whole.size() - 3)}) {
    CAPTURE(text);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    Claims claims;
    const std::string note = claims.keep_in(directory_of(folder), false);
    CHECK(note.find(file + " is damaged") != std::string::npos);
    CHECK(claims.claim("learner", 2));
    CHECK(Claims().keep_in(directory_of(folder), true).empty());  // it is whole again
  }
  unlink(file.c_str());
  CHECK(Claims().keep_in(directory_of(folder), true).find("is missing") != std::string::npos);
}

TEST_CASE("claims: one that can't be written is not granted") {
  const ScratchFolder folder;
  Claims claims;
  claims.keep_in(directory_of(folder), false);
  const auto actor = claims.claim("actor", 3, 70, kMinute);
  REQUIRE(mkdir(folder.file("claims.new").c_str(), 0700) == 0);
  check_error(ErrorKind::kSystem, folder.file("claims"), [&] { claims.claim("learner", 1, 70, kMinute); });
  check_error(ErrorKind::kSystem, folder.file("claims"), [&] { claims.claim("actor", 3, 70, 2 * kMinute); });
  CHECK(claims.held() == std::vector<std::string>{"actor"});  // on its earlier terms
  check_error(ErrorKind::kRefused, "another owner holds it", [&] { claims.claim("actor", 4); });
  CHECK(claims.claim("learner", 2));  // not kept: nothing to write
}

TEST_CASE("claims: a server that closes normally reserves them, too") {
  const ScratchFolder folder;
  {
    Server server({.data = folder.file("data")});
    const auto learner = server.claims().claim("learner", 1, 70, kMinute);
    server.close();
  }
  Server server({.data = folder.file("data")});
  CHECK(server.notices().empty());
  check_error(ErrorKind::kRefused, "learner", [&] { server.claims().claim("learner", 2); });
}

}  // namespace
}  // namespace headrace
