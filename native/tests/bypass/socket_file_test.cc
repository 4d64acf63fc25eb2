#include "bypass/socket_file.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core_fixtures.h"
#include "io/file_descriptor.h"

using namespace headrace;
using namespace headrace::bypass;
using namespace headrace::fixtures;

namespace {

FileDescriptor listening_at(const std::string& path) {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(::listen(socket.get(), 1) == 0);
  return socket;
}

}  // namespace

TEST_CASE("a socket whose server is gone is removed, and so is ours at the end") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  listening_at(path);  // and closed
  std::ofstream(path + ".lock") << "";
  REQUIRE(std::filesystem::exists(path));
  {
    const SocketFile file({path}, "text");
    CHECK_FALSE(std::filesystem::exists(path));
    listening_at(path);
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST_CASE("a path that is in use stays as it is, and its server is not asked") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  const SocketFile file({path}, "text");
  const auto server = listening_at(path);
  check_error(ErrorKind::kSystem, "another server listens there", [&] { SocketFile({path}, "text"); });
  CHECK(std::filesystem::exists(path));
  const FileDescriptor accepted(::accept4(server.get(), nullptr, nullptr, SOCK_NONBLOCK));
  CHECK_FALSE(accepted);
}

TEST_CASE("the lock file of several sockets has the text, and all are removed") {
  const ScratchFolder folder;
  const std::vector<std::string> paths = {folder.file("socket"), folder.file("socket.1")};
  listening_at(paths[1]);
  {
    const SocketFile file(paths, "the address");
    std::string text;
    std::getline(std::ifstream(paths[0] + ".lock"), text);
    CHECK(text == "the address");
    for (const auto& path : paths) {
      CHECK_FALSE(std::filesystem::exists(path));
      listening_at(path);
    }
  }
  CHECK(std::filesystem::is_empty(std::filesystem::path(paths[0]).parent_path()));
}

TEST_CASE("a file that is no socket is not removed") {
  const ScratchFolder folder;
  const auto path = folder.file("text");
  std::ofstream(path) << "x";
  check_error(ErrorKind::kSystem, "no socket", [&] { SocketFile({path}, "text"); });
  CHECK(std::filesystem::exists(path));
  CHECK_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST_CASE("a folder that does not exist is named") {
  check_error(ErrorKind::kSystem, "/no/such/folder/socket", [] { SocketFile({"/no/such/folder/socket"}, "text"); });
}
