#include "io/turns.h"

#include <doctest/doctest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <thread>

#include "core_fixtures.h"
#include "io/client.h"
#include "io_fixtures.h"
#include "session_transport.h"
#include "tagged_chunks.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

// A client of a session in the same thread.
struct Simulated {
  Server server;
  std::shared_ptr<Table> table = server.add_table("replay", uniform_table());
  SessionNetwork network{server};
  Client client{{.address = "unix:@simulated", .network = &network}};
  SessionTransport& transport = *network.transport;
};

}  // namespace

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

TEST_CASE_FIXTURE(Simulated, "a sample without a timeout waits without limit") {
  transport.while_waiting = [&] {
    if (transport.waits == 100) table->try_insert(chunk_of(8));
  };
  Batch batch(4);
  CHECK(sample(client, batch, std::nullopt));
  CHECK(transport.waits == 100);
}

TEST_CASE_FIXTURE(Simulated, "a sample that waits lets an insert of another thread pass") {
  std::jthread actor;
  transport.while_waiting = [&] {
    if (transport.waits == 1) actor = std::jthread([&] { client.insert("replay", chunk_of(8)); });
    std::this_thread::sleep_for(milliseconds(1));
  };
  Batch batch(4);
  CHECK(sample(client, batch, std::chrono::hours(2)));
  actor.join();
}

TEST_CASE_FIXTURE(Simulated, "an insert that waits lets a request of another thread pass") {
  constexpr int kPatience = 5000;
  table->set_paused(true);
  std::jthread learner;
  transport.while_waiting = [&] {
    if (transport.waits == 1) learner = std::jthread([&] { client.set_state("replay", TableState::kOpen); });
    std::this_thread::sleep_for(milliseconds(1));
    if (transport.waits == kPatience) table->set_paused(false);
  };
  client.insert("replay", chunk_of(8));
  learner.join();
  CHECK(transport.waits < kPatience);
}

TEST_CASE_FIXTURE(Simulated, "an insert that waits lets no chunk of another thread pass, which has a later number") {
  table->set_paused(true);
  const auto first = std::this_thread::get_id();
  std::jthread other;
  transport.while_waiting = [&] {
    if (transport.waits == 1) other = std::jthread([&] { client.insert("replay", tagged(2)); });
    std::this_thread::sleep_for(milliseconds(1));
    if (transport.waits == 50 || std::this_thread::get_id() != first) table->set_paused(false);
  };
  client.insert("replay", tagged(1));
  other.join();
  CHECK(tags_in(*table) == Tags{1, 2});
}
