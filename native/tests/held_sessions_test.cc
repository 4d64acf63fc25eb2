#include "io/held_sessions.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <vector>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

using Id = HeldSessions::Id;

// Sessions that hold on to what they are told to, and a record of which were tried.
struct Held {
  HeldSessions sessions{[this] { ++wakes; }};
  std::shared_ptr<Table> table = std::make_shared<Table>(limited_table());
  std::map<Id, HeldSessions::Hold> holding;  // what is still held when it is tried
  std::vector<Id> tried;
  int wakes = 0;

  void hold(Id id, bool inserts, Deadline deadline = never(), std::uint64_t request = 1) {
    holding[id] = {table, request, inserts, deadline};
    sessions.add(id, holding[id]);
  }
  // The sessions that are tried, in order.
  std::vector<Id> resume(Deadline now = later(0)) {
    tried.clear();
    sessions.resume_ready(now, [this](Id id) {
      tried.push_back(id);
      const auto found = holding.find(id);
      return found != holding.end() ? sessions.add(id, found->second) : sessions.remove(id);
    });
    return tried;
  }
  void wake_table() {  // as one that was refused and may go on now
    table->set_paused(true);
    CHECK_FALSE(table->try_insert(chunk_of(1)));
    table->set_paused(false);
  }
};

using Ids = std::vector<Id>;

}  // namespace

TEST_CASE("held sessions: an insert that is held again holds those behind it, and they keep their order") {
  Held held;
  for (const Id id : {2, 4, 6, 8}) held.hold(id, true);
  CHECK(held.resume() == Ids{2});  // once more, since the table may have changed before it knew of them
  CHECK(held.resume().empty());
  held.wake_table();
  held.holding.erase(2);
  held.holding.erase(4);
  CHECK(held.resume() == Ids{2, 4, 6});
  held.hold(2, true, never(), 2);  // its next request goes to the end
  held.wake_table();
  held.holding.clear();
  CHECK(held.resume() == Ids{6, 8, 2});
  CHECK(held.sessions.size() == 0);
}

TEST_CASE("held sessions: the next insert is tried where the first goes with its connection") {
  Held held;
  for (const Id id : {2, 4, 6}) held.hold(id, true);
  CHECK(held.resume() == Ids{2});
  const int before = held.wakes;
  held.sessions.leave(4);  // not the first
  CHECK(held.wakes == before);
  CHECK(held.resume().empty());
  held.sessions.leave(2);
  CHECK(held.wakes == before + 1);
  CHECK(held.resume() == Ids{6});
  held.sessions.leave(6);  // none is behind it
  CHECK(held.wakes == before + 1);
  CHECK(held.sessions.size() == 0);
}

TEST_CASE("held sessions: the next insert is tried where the first goes at its deadline") {
  Held held;
  held.hold(2, true, later(5));
  held.hold(4, true);
  held.hold(6, true);
  CHECK(held.resume(later(1)) == Ids{2});
  held.holding[2] = {held.table, 2, true, never()};  // the peer's next one, which is held behind the others
  CHECK(held.resume(later(5)) == Ids{2, 4});
  CHECK(held.resume(later(6)).empty());
}

TEST_CASE("held sessions: all samples are tried") {
  Held held;
  for (const Id id : {2, 4, 6}) held.hold(id, false);
  held.hold(8, true);
  held.hold(10, true);
  CHECK(held.resume() == Ids{2, 4, 6, 8});
}

TEST_CASE("held sessions: what happens to one table concerns no session of another") {
  Held held;
  held.hold(2, true);
  const auto first = held.table;
  held.table = std::make_shared<Table>(limited_table());
  held.hold(4, true);
  CHECK(held.resume().size() == 2);
  held.wake_table();
  CHECK(held.resume() == Ids{4});
  first->close();
  CHECK(held.resume() == Ids{2});
}

TEST_CASE("held sessions: thousands that are held cost a wake of their table nothing") {
  Held held;
  for (Id id = 0; id < 10'000; id += 2) held.hold(id, true);
  held.resume();
  for (int i = 0; i < 10; ++i) {
    held.wake_table();
    CHECK(held.resume().size() == 1);
  }
}

TEST_CASE("held sessions: many that may go on do so over several turns") {
  Held held;
  for (Id id = 0; id < 200; id += 2) held.hold(id, true);
  held.holding.clear();
  held.wakes = 0;
  CHECK(held.resume().size() == HeldSessions::kInsertsPerTurn);
  CHECK(held.wakes == 1);
  CHECK(held.resume().size() == 100 - HeldSessions::kInsertsPerTurn);
  CHECK(held.wakes == 1);
}

TEST_CASE("held sessions: each is tried at its deadline, also behind one that is held") {
  Held held;
  held.hold(2, true);
  held.hold(4, true, later(50));
  held.hold(6, false, later(30));
  held.resume();
  CHECK(held.sessions.next_deadline() == later(30));
  held.holding.erase(6);
  CHECK(held.resume(later(30)) == Ids{6});
  CHECK(held.sessions.next_deadline() == later(50));
  held.holding.erase(4);
  CHECK(held.resume(later(50)) == Ids{4});
  CHECK(held.sessions.next_deadline() == never());
}

TEST_CASE("held sessions: a dropped table is not kept, and its sessions are tried") {
  Held held;
  held.hold(2, false);
  held.resume();
  const std::weak_ptr<Table> table = held.table;
  held.holding.clear();
  held.table->retire();
  held.table.reset();
  CHECK(table.expired());
  CHECK(held.resume() == Ids{2});
  held.wakes = 0;
  held.hold(4, true);  // of a table that is gone already
  CHECK(held.wakes == 1);
  held.holding.clear();
  CHECK(held.resume() == Ids{4});
}

TEST_CASE("held sessions: wakers go with the last session, or with the object") {
  Held held;
  held.hold(2, true);
  held.resume();
  held.sessions.remove(2);
  held.sessions.forget_idle_tables();
  held.wakes = 0;
  held.wake_table();
  CHECK(held.wakes == 0);
  const auto table = held.table;
  auto other = std::make_unique<HeldSessions>([] { FAIL("woken after its end"); });
  other.reset();
  held.wake_table();
}
