#include "core/server.h"

#include <thread>

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::small_signature;
using fixtures::soon;

TableOptions small_options(std::uint64_t capacity = 10) {
  return {.signature = small_signature(), .capacity = capacity, .capacity_bytes = 4096};
}

std::vector<std::byte> chunk_of(std::uint32_t steps) { return PlainChunk::of(steps, 1).bytes(small_signature()); }

TEST_CASE("server: tables under names") {
  Server server;
  check_error(ErrorKind::kNotFound, "no tables", [&] { server.table("replay"); });
  const auto table = server.add_table("replay", {.signature = small_signature(), .capacity = 10});
  server.add_table("expert", {.signature = small_signature(), .capacity = 10});
  CHECK(server.table("replay") == table);
  CHECK(server.table_names() == std::vector<std::string>{"expert", "replay"});
  check_error(ErrorKind::kInvalid, "replay", [&] { server.add_table("replay", {.signature = small_signature()}); });
  check_error(ErrorKind::kNotFound, "\"expert\", \"replay\"", [&] { server.table("other"); });
  CHECK(server.mailbox("episodes") == server.mailbox("episodes"));
  server.close();
  check_error(ErrorKind::kClosed, "closed", [&] { table->try_insert(chunk_of(1)); });
  check_error(ErrorKind::kClosed, "server is closed", [&] { server.add_table("late", small_options()); });
  check_error(ErrorKind::kClosed, "server is closed", [&] { server.open_table("replay", small_options(), false); });
  check_error(ErrorKind::kClosed, "server is closed", [&] { server.set_state("replay", TableState::kOpen); });
}

TEST_CASE("server: a learner that resumes gets the table unchanged and reopened") {
  Server server;
  const auto made = server.open_table("replay", small_options(), false);
  made->try_insert(chunk_of(5));
  server.set_state("replay", TableState::kClosed);
  check_error(ErrorKind::kClosed, "closed", [&] { made->try_insert(chunk_of(5)); });
  auto other = small_options();
  other.seed = 99;  // which may differ, as may the tolerance
  other.limiter.tolerance = 99;
  CHECK(server.open_table("replay", other, false) == made);
  CHECK(made->size() == 5);
  CHECK(made->try_insert(chunk_of(5)));
  server.set_state("replay", TableState::kPaused);
  CHECK_FALSE(made->try_insert(chunk_of(5)));
  server.open_table("replay", small_options(), false);
  CHECK(made->try_insert(chunk_of(5)));
  server.set_state("replay", TableState::kClosed);
  server.set_state("replay", TableState::kPaused);
  CHECK_FALSE(made->try_insert(chunk_of(5)));
  server.set_state("replay", TableState::kOpen);
  CHECK(made->try_insert(chunk_of(5)));
  check_error(ErrorKind::kRefused, "capacity 11, ", [&] { server.open_table("replay", small_options(11), false); });
  auto stacked = small_options();
  stacked.signature.stack = 2;
  check_error(ErrorKind::kRefused, "stack=2", [&] { server.open_table("replay", stacked, false); });
  const auto refused = [&](const char* word, auto change) {
    auto changed = small_options();
    change(changed);
    check_error(ErrorKind::kRefused, word, [&] { server.open_table("replay", changed, false); });
  };
  refused("uniform", [](TableOptions& options) { options.sampler = Sampler::kUniform; });
  refused("exponent 0.9", [](TableOptions& options) { options.priority_exponent = 0.9; });
  refused("samples_per_insert 8", [](TableOptions& options) { options.limiter.samples_per_insert = 8; });
  refused("min_size 5", [](TableOptions& options) { options.limiter.min_size = 5; });
  check_error(ErrorKind::kNotFound, "other", [&] { server.set_state("other", TableState::kOpen); });
}

TEST_CASE("server: a learner that starts fresh gets an empty table, and waiters on the old one get an error") {
  Server server;
  const auto old = server.open_table("replay", small_options(), true);
  old->try_insert(chunk_of(5));
  old->set_paused(true);
  std::thread actor([&] { check_error(ErrorKind::kClosed, "closed", [&] { old->insert(chunk_of(5), never()); }); });
  auto wrong = small_options();
  wrong.priority_exponent = 9;
  check_error(ErrorKind::kInvalid, "priority_exponent", [&] { server.open_table("replay", wrong, true); });
  CHECK(server.table("replay") == old);
  const auto fresh = server.open_table("replay", small_options(20), true);
  actor.join();
  CHECK(fresh != old);
  CHECK(fresh->size() == 0);
  CHECK(old->size() == 5);  // still whole for its holder
  CHECK(server.table("replay") == fresh);
}

TEST_CASE("server: everything with the prefix is dropped") {
  Server server;
  const auto dropped = server.add_table("a/replay", small_options());
  server.add_table("b/replay", small_options());
  server.parameters().publish("a/policy", 0, std::vector<std::byte>(3));
  server.parameters().publish("b/policy", 0, std::vector<std::byte>(3));
  const auto mailbox = server.mailbox("a/episodes");
  mailbox->put(std::vector<std::byte>(3));
  CHECK(server.drop("a/") == 3);
  check_error(ErrorKind::kClosed, "closed", [&] { dropped->try_insert(chunk_of(1)); });
  CHECK(server.table_names() == std::vector<std::string>{"b/replay"});
  CHECK(server.parameters().fetch("a/policy") == nullptr);
  CHECK(server.mailbox("a/episodes") != mailbox);
  CHECK(server.drop("") == 3);  // the mailbox was made again
  CHECK(server.find_mailbox("a/episodes") == nullptr);
  CHECK(server.drop("") == 0);
}

TEST_CASE("server: the file of a dropped table is removed, even without a data directory") {
  const fixtures::ScratchFolder folder;
  Server server;
  auto options = small_options();
  options.path = folder.file("replay");
  server.add_table("replay", options);
  CHECK(std::filesystem::exists(options.path));
  server.drop("replay");
  CHECK_FALSE(std::filesystem::exists(options.path));
}

TEST_CASE("server: tables count against the budget, and a refusal says so") {
  const std::uint64_t bytes = Table::memory_bytes(small_options());
  Server server({.memory_bytes = bytes + 1000});
  const auto first = server.add_table("first", small_options());
  CHECK(server.budget().used() == bytes);
  check_error(ErrorKind::kRefused,
              "table \"second\" needs " + std::to_string(bytes) + " bytes, but " + std::to_string(bytes) +
                  " of the memory budget of " + std::to_string(bytes + 1000),
              [&] { server.add_table("second", small_options()); });
  CHECK(server.table_names().size() == 1);
  // A fresh one takes the place of the old one, even while that is still held.
  CHECK(server.open_table("first", small_options(), true) != first);
  server.parameters().publish("policy", 0, std::vector<std::byte>(600));
  check_error(ErrorKind::kRefused, "parameters",
              [&] { server.parameters().publish("policy", 0, std::vector<std::byte>(600)); });
  server.mailbox("episodes")->put(std::vector<std::byte>(600));
  CHECK(server.mailbox("episodes")->stats().dropped == 1);
  server.drop("");
  CHECK(server.budget().used() == 0);
}

TEST_CASE("server: a table is kept if its replacement can't be created") {
  const std::uint64_t bytes = Table::memory_bytes(small_options());
  Server server({.memory_bytes = bytes + 1000});
  const auto table = server.add_table("replay", small_options());
  table->try_insert(chunk_of(5));
  auto wrong = small_options();
  wrong.limiter.samples_per_insert = -1;
  check_error(ErrorKind::kInvalid, "samples_per_insert", [&] { server.open_table("replay", wrong, true); });
  auto large = small_options();
  large.capacity_bytes += 1001;
  check_error(ErrorKind::kRefused, "table \"replay\" needs 1001 bytes",
              [&] { server.open_table("replay", large, true); });
  CHECK(server.table("replay") == table);
  CHECK(server.budget().used() == bytes);
  CHECK(table->try_insert(chunk_of(5)) == 5);  // and it is open
  large.capacity_bytes -= 1;
  server.open_table("replay", large, true);
  CHECK(server.budget().used() == bytes + 1000);
  server.open_table("replay", small_options(), true);
  CHECK(server.budget().used() == bytes);
}

TEST_CASE("server: as many tables and mailboxes as the limits, and no more") {
  Server server;
  TableOptions tiny{.signature = small_signature(), .capacity = 1, .capacity_bytes = 256};
  for (std::size_t i = 0; i < Server::kMaxTables; ++i) server.add_table(std::to_string(i), tiny);
  check_error(ErrorKind::kRefused, "1024", [&] { server.add_table("one more", tiny); });
  check_error(ErrorKind::kNotFound, "and 1008 more", [&] { server.table("one more"); });
  for (std::size_t i = 0; i < Server::kMaxMailboxes; ++i) server.mailbox(std::to_string(i));
  check_error(ErrorKind::kRefused, "4096", [&] { server.mailbox("one more"); });
  CHECK(server.mailbox("17"));
}

TEST_CASE("server: connections are listed while they live") {
  Server server;
  const auto first = server.add_meter("first");
  {
    const auto second = server.add_meter("second");
    second->requests = 3;
    REQUIRE(server.meters().size() == 2);
    CHECK(server.meters()[1]->peer == "second");
    CHECK(server.meters()[1]->requests == 3);
  }
  REQUIRE(server.meters().size() == 1);
  CHECK(server.meters()[0] == first);
  CHECK(Server().instance() != server.instance());
}

TEST_CASE("server: tables are made, found and dropped by many threads at once") {
  Server server;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&server, thread] {
      for (int i = 0; i < 200; ++i) {
        try {
          const auto table = server.open_table("replay", small_options(), i % 2 == thread % 2);
          table->try_insert(chunk_of(5));
          if (i % 7 == 0) server.drop("re");
          if (i % 5 == 0) server.set_state("replay", TableState::kPaused);
          server.table("replay")->stats();
        } catch (const Error& error) {
          REQUIRE((error.kind() == ErrorKind::kClosed || error.kind() == ErrorKind::kNotFound));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(server.open_table("replay", small_options(), true)->size() == 0);
}

}  // namespace
}  // namespace headrace
