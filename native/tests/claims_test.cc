#include "core/claims.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

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

TEST_CASE("claims: an owner that claims again has the new hold alone") {
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

}  // namespace
}  // namespace headrace
