#include "bypass/pacing.h"

#include <doctest/doctest.h>

using namespace headrace;
using namespace headrace::bypass;
using std::chrono::milliseconds;
using Pause = Pacing::Pause;

namespace {

Deadline at(int ms) { return Deadline() + milliseconds(ms); }

}  // namespace

TEST_CASE("an adaptive loop yields now and then, and naps after a second without work") {
  Pacing pacing(Polling::kAdaptive, at(0));
  for (unsigned i = 1; i < Pacing::kTurnsPerYield; ++i) CHECK(pacing.after_turn(false, at(1)) == Pause::kNone);
  CHECK(pacing.after_turn(false, at(1)) == Pause::kYield);
  CHECK(pacing.after_turn(false, at(1000)) == Pause::kNap);
  CHECK(pacing.after_turn(true, at(2000)) == Pause::kNone);
  CHECK(pacing.after_turn(false, at(2999)) == Pause::kNone);
  CHECK(pacing.after_turn(false, at(3000)) == Pause::kNap);
}

TEST_CASE("a client that waits stays awake at first, and then is late by an eighth of the wait and 1 ms at most") {
  CHECK(nap_after(std::chrono::microseconds(199)).count() == 0);
  CHECK(nap_after(std::chrono::microseconds(400)) == std::chrono::microseconds(50));
  CHECK(nap_after(milliseconds(8)) == milliseconds(1));
  CHECK(nap_after(std::chrono::hours(1)) == milliseconds(1));
}

TEST_CASE("a loop that always polls never pauses") {
  Pacing pacing(Polling::kAlways, at(0));
  for (int i = 0; i < 100; ++i) CHECK(pacing.after_turn(false, at(1000 * i)) == Pause::kNone);
}
