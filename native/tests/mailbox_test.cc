#include "core/mailbox.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

TEST_CASE("mailbox: first in, first out, and drained once") {
  Mailbox mailbox;
  mailbox.put({std::byte{1}});
  mailbox.put({});
  mailbox.put({std::byte{3}, std::byte{3}});
  const auto messages = mailbox.drain();
  REQUIRE(messages.size() == 3);
  CHECK(messages[0] == std::vector{std::byte{1}});
  CHECK(messages[1].empty());
  CHECK(messages[2].size() == 2);
  CHECK(mailbox.drain().empty());
  CHECK(mailbox.dropped() == 0);
}

TEST_CASE("mailbox: when full the oldest go, and are counted") {
  Mailbox mailbox;
  for (std::size_t i = 0; i < Mailbox::kMaxMessages + 3; ++i) mailbox.put({std::byte(i)});
  CHECK(mailbox.dropped() == 3);
  const auto messages = mailbox.drain();
  CHECK(messages.size() == Mailbox::kMaxMessages);
  CHECK(messages.front().front() == std::byte{3});

  for (int i = 0; i < 5; ++i) mailbox.put(std::vector<std::byte>(16 << 20, std::byte(i)));
  CHECK(mailbox.dropped() == 4);  // 64 MiB hold four
  CHECK(mailbox.drain().front().front() == std::byte{1});
}

TEST_CASE("mailbox: a message above 16 MiB is refused") {
  Mailbox mailbox;
  check_error(ErrorKind::kRefused, "16777217", [&] { mailbox.put(std::vector<std::byte>((16 << 20) + 1)); });
  CHECK(mailbox.drain().empty());
}

}  // namespace
}  // namespace headrace
