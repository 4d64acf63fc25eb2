#include "bypass/command.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "core_fixtures.h"
#include "wire/frame.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::fixtures;

namespace {

const std::string kMemif = "dpdk:memif,socket=/run/a,ip=10.9.0.1/24";

}  // namespace

TEST_CASE("every option reaches its setting") {
  const ScratchFolder folder;
  std::ofstream(folder.file("token")) << "  0123456789abcdef\n";
  const auto command =
      Command::parse({"--listen", kMemif, "--listen", "unix:@x", "--data", "/d", "--memory", "1000",
                      "--shard-save-period", "2.5", "--token-file", folder.file("token"), "--poll", "always"});
  CHECK(command.ports.at(0).place == "/run/a");
  CHECK(command.sockets == std::vector<std::string>{"unix:@x"});
  CHECK(command.server.data == "/d");
  CHECK(command.server.memory_bytes == 1000);
  CHECK(command.server.shard_save_period == std::chrono::milliseconds(2500));
  CHECK(command.polling == Polling::kAlways);
  const Nonce one = {};
  REQUIRE(command.token);
  CHECK(command.token->client_proof(one, one) == Token(as_bytes("0123456789abcdef")).client_proof(one, one));
}

TEST_CASE("a mistake is named with what is required") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--listen dpdk:KIND,... is required"},
      {{"--listen", "unix:@x"}, "--listen dpdk:KIND,... is required"},
      {{"--listen"}, "--listen: a value is required"},
      {{"--lisen", kMemif}, "--lisen: there is no such option"},
      {{"--memory", "1G"}, "--memory is 1G"},
      {{"--memory", "0"}, "--memory is 0"},
      {{"--shard-save-period", "nan"}, "--shard-save-period is nan"},
      {{"--poll", "rarely"}, "--poll is rarely; it must be always or adaptive"},
      {{"--token-file", "/no/such/file"}, "--token-file is /no/such/file"},
  };
  for (const auto& [words, said] : cases) {
    check_error(ErrorKind::kInvalid, said, [&] { Command::parse(words); });
  }
}
