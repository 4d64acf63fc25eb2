#include "core/mailbox.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using Bytes = std::vector<std::byte>;

Bytes message(int value, std::size_t size = 1) { return Bytes(size, std::byte(value)); }

// First bytes of messages.
std::vector<int> values(const std::vector<Bytes>& messages) {
  std::vector<int> result;
  for (const Bytes& bytes : messages) result.push_back(std::to_integer<int>(bytes.at(0)));
  return result;
}

TEST_CASE("mailbox: first in, first out, and drained once") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  mailbox.put(message(1));
  mailbox.put({});
  mailbox.put(message(3, 2));
  const auto messages = mailbox.drain();
  REQUIRE(messages.size() == 3);
  CHECK(messages[0] == std::vector{std::byte{1}});
  CHECK(messages[1].empty());
  CHECK(messages[2].size() == 2);
  CHECK(mailbox.drain().empty());
  CHECK(mailbox.stats().dropped == 0);
  CHECK(budget.used() == 0);
}

TEST_CASE("mailbox: when it is full, the oldest messages are dropped and counted") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  for (std::size_t i = 0; i < Mailbox::kMaxMessages + 3; ++i) mailbox.put(message(static_cast<int>(i)));
  CHECK(mailbox.stats().dropped == 3);
  const auto messages = mailbox.drain();
  CHECK(messages.size() == Mailbox::kMaxMessages);
  CHECK(messages.front().front() == std::byte{3});

  for (int i = 0; i < 5; ++i) mailbox.put(message(i, 16 << 20));
  CHECK(mailbox.stats().dropped == 4);  // 64 MiB hold four
  CHECK(mailbox.drain().front().front() == std::byte{1});
}

TEST_CASE("mailbox: a message above 16 MiB is refused") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  check_error(ErrorKind::kRefused, "16777217", [&] { mailbox.put(message(1, (16 << 20) + 1)); });
  CHECK(mailbox.drain().empty());
}

TEST_CASE("mailbox: taken messages are kept until the next take acknowledges them") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  CHECK(mailbox.take(0, 0).last == 0);
  for (int i = 1; i <= 3; ++i) mailbox.put(message(i));
  const auto first = mailbox.take(0, 0);
  CHECK(values(first.messages) == std::vector{1, 2, 3});
  CHECK(first.last == 3);
  mailbox.put(message(4));
  CHECK(values(mailbox.take(0, 0).messages) == std::vector{1, 2, 3, 4});                // the answer was lost
  CHECK(values(mailbox.take(first.epoch + 1, 3).messages) == std::vector{1, 2, 3, 4});  // of another mailbox
  const auto second = mailbox.take(first.epoch, first.last);
  CHECK(values(second.messages) == std::vector{4});
  CHECK(second.last == 4);
  CHECK(second.epoch == first.epoch);
  CHECK(values(mailbox.take(first.epoch, first.last).messages) == std::vector{4});
  const auto none = mailbox.take(second.epoch, second.last);
  CHECK(none.messages.empty());
  CHECK(none.last == 4);
  CHECK(budget.used() == 0);
  mailbox.put(message(5));
  CHECK(values(mailbox.take(none.epoch, ~std::uint64_t{0}).messages).empty());  // more than there is: all
  CHECK(mailbox.stats().dropped == 0);
  CHECK(Mailbox(budget).take(0, 0).epoch != first.epoch);
}

TEST_CASE("mailbox: a take returns the messages that fit, at least one, without gaps") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  for (int i = 1; i <= 3; ++i) mailbox.put(message(i, 100));
  mailbox.put(message(4, 300));
  mailbox.put(message(5));
  auto taken = mailbox.take(0, 0, 299);
  CHECK(values(taken.messages) == std::vector{1, 2});
  CHECK(taken.last == 2);
  CHECK(values(mailbox.take(taken.epoch, 0, 300).messages) == std::vector{1, 2, 3});
  taken = mailbox.take(taken.epoch, taken.last, 299);
  CHECK(values(taken.messages) == std::vector{3});
  taken = mailbox.take(taken.epoch, taken.last, 299);
  CHECK(values(taken.messages) == std::vector{4});  // too large, and alone
  CHECK(taken.last == 4);
  taken = mailbox.take(taken.epoch, taken.last, 0);
  CHECK(values(taken.messages) == std::vector{5});
  taken = mailbox.take(taken.epoch, taken.last, 0);
  CHECK(taken.messages.empty());
  CHECK(taken.last == 5);
  CHECK(budget.used() == 0);
}

TEST_CASE("mailbox: one take gives 4 MiB") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  for (int i = 0; i < 60; ++i) mailbox.put(message(i, 1 << 20));
  CHECK(mailbox.take(0, 0).messages.size() == 4);
}

TEST_CASE("mailbox: numbers count what was dropped, too") {
  MemoryBudget budget(1000);
  Mailbox mailbox(budget);
  for (int i = 1; i <= 4; ++i) mailbox.put(message(i, 300));  // room for two
  CHECK(mailbox.stats().dropped == 2);
  const auto taken = mailbox.take(0, 0);
  CHECK(values(taken.messages) == std::vector{3, 4});
  CHECK(taken.last == 4);
  CHECK(values(mailbox.take(taken.epoch, 3).messages) == std::vector{4});
}

TEST_CASE("mailbox: a message that is sent again counts once") {
  MemoryBudget budget;
  Mailbox mailbox(budget);
  mailbox.put(message(1), 7, 1);
  mailbox.put(message(1), 7, 1);
  mailbox.put(message(2), 8, 1);
  mailbox.put(message(3), 7, 2);
  mailbox.put(message(1), 7, 1);  // older than the writer's last
  mailbox.put(message(4));        // without a writer: always new
  mailbox.put(message(4));
  CHECK(values(mailbox.drain()) == std::vector{1, 2, 3, 4, 4});
  mailbox.put(message(3), 7, 2);  // known even when it is gone
  CHECK(mailbox.drain().empty());
  CHECK(budget.used() == 2 * Writers::kBytesEach);  // however many messages each writer has sent
}

TEST_CASE("mailbox: writers are remembered up to the limit, and the budget pays for them") {
  MemoryBudget budget;
  {
    Mailbox mailbox(budget);
    for (std::uint64_t writer = 1; writer <= Mailbox::kMaxWriters + 1; ++writer) mailbox.put(message(1), writer, 1);
    mailbox.drain();
    CHECK(budget.used() == Mailbox::kMaxWriters * Writers::kBytesEach);
    mailbox.put(message(2), 2, 1);
    CHECK(mailbox.drain().empty());
    mailbox.put(message(1), 1, 1);  // forgotten: the longest silent
    CHECK(mailbox.drain().size() == 1);
  }
  CHECK(budget.used() == 0);
}

TEST_CASE("mailbox: without budget the oldest messages are dropped, finally the new one") {
  MemoryBudget budget(2000);
  Mailbox mailbox(budget);
  mailbox.put(message(1, 500));
  mailbox.put(message(2, 500), 7, 1);
  auto others = budget.try_take(budget.limit() - budget.used());
  mailbox.put(message(3, 500), 8, 1);
  CHECK(mailbox.stats().dropped == 1);
  mailbox.put(message(4, 1500));
  CHECK(mailbox.stats().dropped == 4);
  CHECK(mailbox.drain().empty());
  others.reset();
  mailbox.put(message(3, 500), 8, 1);  // its writer took the place of writer 7
  CHECK(mailbox.drain().empty());
  mailbox.put(message(2, 500), 7, 1);
  CHECK(values(mailbox.drain()) == std::vector{2});
}

}  // namespace
}  // namespace headrace
