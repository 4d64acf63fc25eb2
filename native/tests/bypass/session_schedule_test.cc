// The order in which sessions go on, without any I/O.
#include "bypass/session_schedule.h"

#include <doctest/doctest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::testing;

namespace {

using Id = SessionSchedule::Id;

struct Sessions {
  explicit Sessions(TableOptions options) { table = server.add_table("replay", std::move(options)); }

  Id add(const Token* token = nullptr) {
    SessionOptions options;
    options.yields = true;
    options.token = token;
    sessions.emplace_back(server, std::move(options));
    schedule.add(sessions.size(), sessions.back());
    return sessions.size();
  }

  void fill() {
    while (table->try_insert(chunk_of(8))) continue;
  }

  void request(Id id, const Bytes& bytes) {
    feed(sessions[id - 1], bytes);
    schedule.note(id);
  }

  // Who was asked to go on, in that order.
  std::vector<Id> run(std::int64_t milliseconds) {
    std::vector<Id> resumed;
    schedule.run(later(milliseconds), [&](Id id) {
      resumed.push_back(id);
      sessions[id - 1].resume(later(milliseconds));
      take_output(sessions[id - 1]);
      schedule.note(id);
    });
    return resumed;
  }

  Server server;
  std::shared_ptr<Table> table;
  std::deque<OpenSession> sessions;
  SessionSchedule schedule{2};
};

Bytes insert(std::int64_t wait) { return frame(MessageType::kInsert, "replay", insert_payload(chunk_of(16), wait)); }

}  // namespace

TEST_CASE("held inserts are tried in their order, and none behind one that is still held") {
  Sessions sessions(limited_table());
  sessions.fill();
  for (int i = 0; i < 3; ++i) sessions.request(sessions.add(), insert(-1));
  CHECK(sessions.run(1) == std::vector<Id>{1});  // once after the table's waker was added
  CHECK(sessions.run(2).empty());
  sessions.table->close();
  CHECK(sessions.run(3) == std::vector<Id>{1, 2, 3});
}

TEST_CASE("a held session goes on at its deadline, also behind one that waits longer") {
  Sessions sessions(limited_table());
  sessions.fill();
  sessions.request(sessions.add(), insert(-1));
  sessions.request(sessions.add(), insert(500));
  sessions.run(1);
  CHECK(sessions.run(499).empty());
  CHECK(sessions.run(500) == std::vector<Id>{1, 2});
  CHECK_FALSE(sessions.sessions[1].blocked());
}

TEST_CASE("a session that gave way goes on in the next turn") {
  Sessions sessions(small_table());
  Bytes requests;
  for (std::uint64_t i = 1; i <= 100; ++i)
    requests += frame(MessageType::kFetch, "policy", numbers(std::uint64_t{0}), i);
  sessions.request(sessions.add(), requests);
  CHECK(sessions.schedule.has_yielded());
  CHECK(sessions.run(1) == std::vector<Id>{1});
  CHECK_FALSE(sessions.schedule.has_yielded());
  CHECK(sessions.run(2).empty());
}

TEST_CASE("the oldest session without proof is surplus") {
  Sessions sessions(small_table());
  const Token token(as_bytes("0123456789abcdef"));
  for (int i = 0; i < 2; ++i) sessions.add(&token);
  sessions.add();
  CHECK_FALSE(sessions.schedule.surplus());
  sessions.add(&token);
  CHECK(sessions.schedule.surplus() == Id{1});
  sessions.schedule.remove(1);
  CHECK_FALSE(sessions.schedule.surplus());
}

TEST_CASE("tables are released once no session waits for them") {
  Sessions sessions(limited_table());
  sessions.fill();
  sessions.request(sessions.add(), insert(-1));
  sessions.run(1);
  sessions.schedule.release_tables();
  sessions.table->close();
  CHECK(sessions.schedule.woken());
  CHECK(sessions.run(2) == std::vector<Id>{1});
  sessions.schedule.release_tables();
  sessions.table->reopen();
  CHECK_FALSE(sessions.schedule.woken());
}
