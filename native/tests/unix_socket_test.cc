#include "io/unix_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "core_fixtures.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;
using fixtures::ScratchFolder;

TEST_CASE("an abstract name vanishes with its server") {
  std::string address;
  {
    Served served;
    address = served.address;
    CHECK(address.starts_with("unix:@headrace-"));
    CHECK(kind_of([&] { UnixListener second(Address::parse(address)); }) == ErrorKind::kSystem);
    Client(to(address)).stats();
  }
  CHECK(kind_of([&] { Client({.address = address, .connect_timeout = milliseconds(0)}); }) == ErrorKind::kSystem);
}

TEST_CASE("a socket file is accessible only to its owner and removed with its server") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  Server server;
  {
    Loop loop(server);
    CHECK(loop.listen("unix:" + path) == "unix:" + path);
    struct stat file;
    REQUIRE(::lstat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    CHECK(kind_of([&] { loop.listen("unix:" + path); }) == ErrorKind::kSystem);  // in use
    Client(to("unix:" + path)).stats();
  }
  CHECK_FALSE(exists(path));
}

TEST_CASE("a stale socket file is replaced, any other file is not") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  {
    // What a server that was killed leaves: the file without a listener.
    const UnixListener listener(Address::parse("unix:" + path));
    REQUIRE(std::rename(path.c_str(), (path + "2").c_str()) == 0);
  }
  REQUIRE(std::rename((path + "2").c_str(), path.c_str()) == 0);
  Server server;
  {
    Loop loop(server);
    loop.listen("unix:" + path);
    Client(to("unix:" + path)).stats();
  }
  ::close(::open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  Loop loop(server);
  CHECK(kind_of([&] { loop.listen("unix:" + path); }) == ErrorKind::kSystem);
  CHECK(exists(path));
}

TEST_CASE("the peer of a Unix socket is known by its process") {
  UnixListener listener(Address::parse("unix:@"));
  CHECK(listener.local());
  const auto client = connect_unix(listener.address());
  CHECK(listener.accept().peer == "unix pid " + std::to_string(::getpid()));
  CHECK_FALSE(listener.accept().socket);
  CHECK(errno == EAGAIN);
}

TEST_CASE("a socket that another user listens on is not replaced") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  const UnixListener listener(Address::parse("unix:" + path));
  REQUIRE(::chmod(path.substr(0, path.rfind('/')).c_str(), 0777) == 0);  // anyone may remove files there
  REQUIRE(::chmod(path.c_str(), 0) == 0);                                // only root may connect
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) ::_exit(3);
    std::string what;
    const auto kind = kind_of([&] { UnixListener second(Address::parse("unix:" + path)); }, &what);
    ::_exit(kind != ErrorKind::kSystem ? 1 : what.find("left as it is") == std::string::npos ? 2 : 0);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(exists(path));
}
