#include "wire/send_queue.h"

#include <doctest/doctest.h>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

Bytes bytes_of(std::string_view text) { return {as_bytes(text).begin(), as_bytes(text).end()}; }

}  // namespace

TEST_CASE("an owner lives until its last byte is popped") {
  MemoryBudget budget;
  SendQueue queue(budget);
  auto blob = std::make_shared<const Bytes>(bytes_of("weights"));
  const std::weak_ptr<const Bytes> alive = blob;
  queue.push(bytes_of("head"));
  queue.push(blob, *blob);
  queue.push(blob, {});
  blob.reset();
  CHECK(queue.bytes() == 11);
  CHECK(queue.buffers().size() == 2);
  queue.pop(10);
  REQUIRE(queue.buffers().size() == 1);
  CHECK(as_text(queue.buffers()[0]) == "s");
  CHECK_FALSE(alive.expired());
  queue.pop(1);
  CHECK(alive.expired());
  CHECK(queue.bytes() == 0);
  CHECK(queue.buffers().empty());
}

TEST_CASE("small buffers are packed into pieces of which the budget knows") {
  MemoryBudget budget(100 * SendQueue::kPieceBytes);
  SendQueue queue(budget);
  Bytes expected;
  for (int i = 0; i < 1000; ++i) {
    const auto text = std::to_string(i);
    queue.push(bytes_of(text));
    expected += as_bytes(text);
  }
  CHECK(queue.buffers().size() == budget.used() / SendQueue::kPieceBytes);
  CHECK(budget.used() < expected.size() + SendQueue::kPieceBytes);
  Bytes taken;
  while (queue.bytes() > 0) {
    const auto front = queue.buffers().front();
    const auto part = front.first(std::min<std::size_t>(front.size(), 700));
    taken += part;
    queue.pop(part.size());
  }
  CHECK(taken == expected);
  CHECK(budget.used() == 0);
}

TEST_CASE("pieces for which the budget has no room are added up") {
  MemoryBudget budget(SendQueue::kPieceBytes);
  SendQueue queue(budget);
  queue.push(Bytes(SendQueue::kPieceBytes));
  CHECK(queue.uncounted_bytes() == 0);
  queue.push(Bytes(1));
  queue.push(Bytes(3 * SendQueue::kPieceBytes));
  CHECK(queue.uncounted_bytes() == 4 * SendQueue::kPieceBytes);
  queue.pop(queue.bytes());
  CHECK(queue.uncounted_bytes() == 0);
  CHECK(budget.used() == 0);
}

TEST_CASE("a descriptor goes with the first byte of its frame, and its frame goes alone") {
  MemoryBudget budget;
  SendQueue queue(budget);
  auto region = std::make_shared<const int>(0);
  const std::weak_ptr<const int> alive = region;
  queue.push(bytes_of("one"));
  queue.push(bytes_of("two"));
  queue.push(bytes_of("shared"), std::move(region), 7);
  queue.push(bytes_of("last"));
  CHECK(queue.descriptor() == -1);
  REQUIRE(queue.buffers().size() == 1);
  CHECK(as_text(queue.buffers()[0]) == "onetwo");
  queue.pop(6);
  CHECK(queue.descriptor() == 7);
  REQUIRE(queue.buffers().size() == 1);
  CHECK(as_text(queue.buffers()[0]) == "shared");
  queue.pop(1);
  CHECK(queue.descriptor() == -1);
  CHECK(as_text(queue.buffers()[0]) == "hared");
  CHECK_FALSE(alive.expired());
  queue.pop(5);
  CHECK(alive.expired());
  CHECK(queue.buffers().size() == 1);
  queue.pop(4);
  CHECK(queue.descriptor() == -1);
}
