#include "core/server.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::small_signature;

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
  check_error(ErrorKind::kClosed, "closed", [&] { table->try_insert(PlainChunk::of(1, 1).bytes(small_signature())); });
}

}  // namespace
}  // namespace headrace
