#include "io/turns.h"

#include <doctest/doctest.h>

#include <atomic>
#include <exception>
#include <thread>

#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("turns: a thread that asks again is behind those that wait") {
  for (int round = 0; round < 20; ++round) {
    Turns turns({});
    turns.take();
    std::atomic<bool> had = false;
    std::jthread other([&] {
      const Turn turn(turns);
      had = true;
    });
    CHECK(eventually([&] { return turns.contended(); }));
    turns.give();
    turns.take();
    CHECK(had);
    turns.give();
  }
}

TEST_CASE("turns: an interrupt ends the wait, and others have their turns all the same") {
  struct Stopped : std::exception {};
  std::atomic<bool> stop = false;
  Turns turns([&] {
    if (stop.exchange(false)) throw Stopped();
  });
  turns.take();
  std::atomic<int> stopped = 0;
  std::atomic<int> had = 0;
  const auto wait = [&] {
    try {
      const Turn turn(turns);
      ++had;
    } catch (const Stopped&) {
      ++stopped;
    }
  };
  {
    std::jthread one(wait);
    std::jthread other(wait);
    stop = true;
    CHECK(eventually([&] { return stopped == 1; }));
    turns.give();
  }
  CHECK(had == 1);
  const bool taken = turns.try_take();
  CHECK(taken);
  if (taken) turns.give();
}
