#include "io/unix_socket.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core_fixtures.h"
#include "io_fixtures.h"

using namespace headrace;
using namespace headrace::testing;
using fixtures::ScratchFolder;

namespace {

thread_local std::optional<uid_t> peers_user;  // that the kernel reports

// Leaves what a server that was killed leaves: the file without a listener.
void make_stale_file(const std::string& path) {
  {
    const UnixListener listener(Address::parse("unix:" + path));
    REQUIRE(std::rename(path.c_str(), (path + "2").c_str()) == 0);
  }
  REQUIRE(std::rename((path + "2").c_str(), path.c_str()) == 0);
}

}  // namespace

// In place of the C library's: a test can be another user's peer.
extern "C" int getsockopt(int socket, int level, int option, void* value, socklen_t* size) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_getsockopt, socket, level, option, value, size));
  if (result == 0 && level == SOL_SOCKET && option == SO_PEERCRED && peers_user) {
    static_cast<ucred*>(value)->uid = *peers_user;
  }
  return result;
}

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
  make_stale_file(path);
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

TEST_CASE("a client refuses the server of another user") {
  const ScratchFolder folder;
  const std::vector<std::string> addresses = {"unix:" + folder.file("socket"), "unix:@"};
  for (const auto& address : addresses) {
    const UnixListener listener(Address::parse(address));
    CHECK(connect_unix(listener.address()));
    peers_user = ::geteuid() + 1;
    CHECK(kind_of([&] { connect_unix(listener.address()); }) == ErrorKind::kRefused);
    peers_user.reset();
  }
  const UnixListener listener(Address::parse(addresses[0]));
  peers_user = 0;  // root's is trusted
  CHECK(connect_unix(listener.address()));
  peers_user.reset();
}

TEST_CASE("a stale socket file stays while another server may be replacing it") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  make_stale_file(path);
  const FileDescriptor locked(::open(folder.file("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  REQUIRE(::flock(locked.get(), LOCK_EX) == 0);
  std::unique_ptr<UnixListener> listener;
  {
    std::atomic<bool> started = false;
    const std::jthread server([&] {
      started = true;
      listener = std::make_unique<UnixListener>(Address::parse("unix:" + path));
    });
    while (!started) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(100));  // in which a server that does not wait replaces it
    CHECK_FALSE(connect_unix(Address::parse("unix:" + path)));
    CHECK(::flock(locked.get(), LOCK_UN) == 0);
  }
  CHECK(connect_unix(listener->address()));
}

TEST_CASE("of servers that start on a stale socket file at once, one gets it") {
  constexpr int kServers = 4, kRounds = 100;
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  for (int round = 0; round < kRounds; ++round) {
    make_stale_file(path);
    std::barrier start(kServers);
    std::vector<std::unique_ptr<UnixListener>> listeners(kServers);
    {
      std::vector<std::jthread> threads;
      for (auto& listener : listeners) {
        threads.emplace_back([&] {
          start.arrive_and_wait();
          kind_of([&] { listener = std::make_unique<UnixListener>(Address::parse("unix:" + path)); });
        });
      }
    }
    REQUIRE(std::ranges::count_if(listeners, [](const auto& each) { return each != nullptr; }) == 1);
    REQUIRE(connect_unix(Address::parse("unix:" + path)));
  }
}

TEST_CASE("a server does not remove the socket file of another one") {
  const ScratchFolder folder;
  const auto path = folder.file("socket");
  auto listener = std::make_unique<UnixListener>(Address::parse("unix:" + path));
  REQUIRE(std::remove(path.c_str()) == 0);
  const UnixListener other(Address::parse("unix:" + path));
  listener.reset();
  CHECK(connect_unix(other.address()));
}
