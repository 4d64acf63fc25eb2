// Server: tables in a data directory.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <thread>

#include "core/server.h"
#include "core_fixtures.h"

namespace {

thread_local std::function<void(const std::string&)> before_fsync;  // with the file's path

}  // namespace

// In place of the C library's: a test can tell what is flushed when.
extern "C" int fsync(int file) {
  if (before_fsync) before_fsync(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)));
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::PlainChunk;
using fixtures::ScratchFolder;
using fixtures::small_signature;

TableOptions small_options(std::uint64_t capacity = 20) {
  return {.signature = small_signature(), .capacity = capacity, .capacity_bytes = 4096};
}

std::vector<std::byte> chunk_of(std::uint32_t steps, float priority = 1) {
  return PlainChunk::of(steps, priority).bytes(small_signature());
}

// But for that of the claims, which is always there.
std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path().filename());
  files.erase("claims");
  return files;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST_CASE("server: restarted on its data, it restores every table unchanged") {
  const ScratchFolder folder;
  const std::string data = folder.file("made/if/missing");
  const std::string strange(256, '/');
  const std::uint64_t instance = [&] {
    Server server({.data = data});
    TableOptions options = small_options();
    options.sampler = Sampler::kUniform;
    options.limiter = {.samples_per_insert = 0.1, .tolerance = 1.0 / 3, .min_size = 3};
    options.seed = 77;
    server.add_table("run/replay", options)->try_insert(chunk_of(5));
    const auto table = server.add_table(strange, small_options());
    table->try_insert(chunk_of(5, 2));
    table->update_priorities(std::vector<std::uint64_t>{3}, std::vector<float>{9});
    server.add_table("../..\n", small_options());
    server.parameters().publish("policy", 0, std::vector<std::byte>(3));
    return server.instance();  // and it ends without close(), as when killed
  }();
  Server server({.data = data});
  CHECK(server.instance() != instance);
  CHECK(server.table_names() == std::vector<std::string>{"../..\n", strange, "run/replay"});
  CHECK(server.table("run/replay")->size() == 5);
  const TableOptions options = server.table("run/replay")->options();
  CHECK(options.sampler == Sampler::kUniform);
  CHECK(options.limiter.samples_per_insert == 0.1);
  CHECK(options.limiter.tolerance == 1.0 / 3);
  CHECK(options.limiter.min_size == 3);
  CHECK(options.seed == 77);
  CHECK(server.table(strange)->stats().recovered == 5);
  CHECK(server.table(strange)->stats().max_priority == 9);
  CHECK(server.parameters().list().empty());
  CHECK(server.budget().used() == Table::memory_bytes(options) + 2 * Table::memory_bytes(small_options()));
  CHECK(server.open_table(strange, small_options(), false)->try_insert(chunk_of(5)) == 5);
  server.close();
}

TEST_CASE("server: a table's arena is on the disk before its settings are, by its name and its header") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  Server server({.data = data});
  std::vector<std::string> flushed;
  before_fsync = [&](const std::string& path) {
    const std::string file = path.substr(data.size());
    if (file == "/table-1.arena") CHECK(contents(path).starts_with("HRARENA"));
    if (file != "/table-1.settings.new") CHECK(contents(data + "/table-1.settings.new").empty());
    flushed.push_back(file);
  };
  server.add_table("replay", small_options());
  before_fsync = nullptr;
  CHECK(flushed == std::vector<std::string>{"/table-1.arena", "", "/table-1.settings.new", ""});
}

TEST_CASE("server: save(), close() and drop() return once their changes are on the disk") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data")});
  const auto table = server.add_table("replay", small_options());
  table->try_insert(chunk_of(5));
  std::vector<std::string> flushed;
  before_fsync = [&](const std::string& path) { flushed.push_back(std::filesystem::path(path).filename()); };
  table->save(folder.file("snapshot"));
  server.close();
  server.drop("replay");
  before_fsync = nullptr;
  CHECK(flushed == std::vector<std::string>{"snapshot", "table-1.arena", "data"});
}

TEST_CASE("server: a second one on the same data is refused") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    const Server server({.data = data});
    check_error(ErrorKind::kRefused, data, [&] { Server{ServerOptions{.data = data}}; });
  }
  const Server server({.data = data});
  write(folder.file("file"), "x");
  check_error(ErrorKind::kSystem, "can't be opened", [&] { Server{ServerOptions{.data = folder.file("file")}}; });
}

TEST_CASE("server: dropping a table removes its files, even while it is in use") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data")});
  const auto held = server.add_table("replay", small_options());
  held->try_insert(chunk_of(5));
  CHECK(files_in(server.data()) == std::set<std::string>{"table-1.arena", "table-1.settings"});
  CHECK(server.drop("replay") == 1);
  CHECK(files_in(server.data()).empty());
  const auto made = server.add_table("replay", small_options());
  CHECK(made->size() == 0);
  CHECK(held->stats().size == 5);  // still mapped
  CHECK(made->try_insert(chunk_of(4)));
  const auto fresh = server.open_table("replay", small_options(40), true);
  CHECK(files_in(server.data()) == std::set<std::string>{"table-3.arena", "table-3.settings"});
  CHECK(made->size() == 4);
  CHECK(fresh->size() == 0);
}

TEST_CASE("server: a table that can't be created leaves no file and does not prevent later ones") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data, .memory_bytes = Table::memory_bytes(small_options())});
    check_error(ErrorKind::kRefused, "budget", [&] { server.add_table("large", small_options(1000)); });
    auto wrong = small_options();
    wrong.limiter.tolerance = -1;
    check_error(ErrorKind::kInvalid, "limiter_tolerance", [&] { server.add_table("wrong", wrong); });
    CHECK(files_in(data).empty());
    server.add_table("replay", small_options());
    check_error(ErrorKind::kInvalid, "exists", [&] { server.add_table("replay", small_options()); });
  }
  CHECK(files_in(data).size() == 2);
  check_error(ErrorKind::kRefused, "replay", [&] { Server{ServerOptions{.data = data, .memory_bytes = 1000}}; });
}

// The one notice that names this file.
void check_notice(const Server& server, const std::string& file) {
  const auto notices = server.notices();
  CHECK(std::count_if(notices.begin(), notices.end(),
                      [&](const std::string& notice) { return notice.find(file + " ") != std::string::npos; }) == 1);
}

TEST_CASE("server: an arena without settings is set aside, byte for byte, and never overwrites an earlier one") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    server.add_table("kept", small_options())->try_insert(chunk_of(5));
    server.add_table("alone", small_options())->try_insert(chunk_of(5));
  }
  std::filesystem::remove(data + "/table-2.settings");
  const std::string experience = contents(data + "/table-2.arena");
  write(data + "/table-3.settings.new", "headrace");
  write(data + "/table-7.arena", "mine");
  write(data + "/table-7.arena.orphan", "earlier");
  write(data + "/table-7.arena.orphan.2", "later");
  std::filesystem::create_directories(data + "/table-8.arena/full");
  write(data + "/table-x.arena", "mine");
  write(data + "/notes", "mine");
  {
    Server server({.data = data});
    CHECK(server.table_names() == std::vector<std::string>{"kept"});
    CHECK(server.table("kept")->size() == 5);
    for (const char* file : {"/table-2.arena", "/table-3.settings.new", "/table-7.arena", "/table-8.arena"}) {
      check_notice(server, data + file);
    }
    CHECK(server.notices().size() == 4);
  }
  CHECK(files_in(data) == std::set<std::string>{"notes", "table-1.arena", "table-1.settings", "table-2.arena.orphan",
                                                "table-3.settings.new.orphan", "table-7.arena.orphan",
                                                "table-7.arena.orphan.2", "table-7.arena.orphan.3",
                                                "table-8.arena.orphan", "table-x.arena"});
  CHECK(contents(data + "/table-2.arena.orphan") == experience);
  CHECK(contents(data + "/table-7.arena.orphan") == "earlier");
  CHECK(contents(data + "/table-7.arena.orphan.3") == "mine");
  Server server({.data = data});
  CHECK(server.notices().empty());  // it was said once
  server.add_table("new", small_options());
  CHECK(files_in(data).contains("table-9.settings"));  // above every number that is set aside
}

TEST_CASE("server: an interrupted drop is completed, and nothing else is mistaken for one") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    for (const char* name : {"first", "second", "third", "fourth"}) server.add_table(name, small_options());
  }
  std::filesystem::rename(data + "/table-1.settings", data + "/table-1.settings.dropped");
  std::filesystem::rename(data + "/table-2.settings", data + "/table-2.settings.dropped");
  std::filesystem::remove(data + "/table-2.arena");
  std::filesystem::remove(data + "/table-3.settings");
  write(data + "/table-3.settings.dropped", "mine");
  write(data + "/table-4.settings.dropped", contents(data + "/table-4.settings"));
  Server server({.data = data});
  CHECK(server.table_names() == std::vector<std::string>{"fourth"});
  CHECK(files_in(data) == std::set<std::string>{"table-3.arena.orphan", "table-3.settings.dropped.orphan",
                                                "table-4.arena", "table-4.settings",
                                                "table-4.settings.dropped.orphan"});
  CHECK(server.notices().size() == 3);
  server.add_table("new", small_options());
  CHECK(files_in(data).contains("table-5.settings"));
}

TEST_CASE("server: killed at any moment of a drop, the table is there or its files are gone") {
  const ScratchFolder folder;
  for (int round = 0; round < 40; ++round) {
    const std::string data = folder.file("data" + std::to_string(round));
    { Server({.data = data}).add_table("replay", small_options())->try_insert(chunk_of(5)); }
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        Server server({.data = data});
        if (::write(ends[1], "x", 1) == 1) server.drop("replay");
      } catch (const std::exception&) {
      }
      for (;;) pause();
    }
    char ready = 0;
    CHECK(read(ends[0], &ready, 1) == 1);
    usleep(static_cast<useconds_t>(round * 10));
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    close(ends[0]);
    close(ends[1]);
    const Server server({.data = data});
    CHECK(server.notices().empty());
    CHECK(files_in(data).size() == 2 * server.table_names().size());
    if (!server.table_names().empty()) CHECK(server.table("replay")->size() == 5);
  }
}

TEST_CASE("server: a table whose arena can't be removed is gone, and its holder gets the error") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  Server server({.data = data});
  const auto held = server.add_table("replay", small_options());
  std::filesystem::rename(data + "/table-1.arena", folder.file("moved"));
  std::filesystem::create_directories(data + "/table-1.arena/full");
  check_error(ErrorKind::kSystem, "table-1.arena can't be removed", [&] { server.drop("replay"); });
  check_error(ErrorKind::kClosed, "closed", [&] { held->try_insert(chunk_of(1)); });
  CHECK(server.table_names().empty());
  CHECK(server.budget().used() == 0);
  CHECK(files_in(data) == std::set<std::string>{"table-1.arena", "table-1.settings.dropped"});

  const auto kept = server.add_table("replay", small_options());  // and settings that can't be: the table stays
  std::filesystem::create_directories(data + "/table-2.settings.dropped/full");
  check_error(ErrorKind::kSystem, "table-2.settings can't be removed", [&] { server.drop("replay"); });
  check_error(ErrorKind::kSystem, "table-2.settings", [&] { server.open_table("replay", small_options(), true); });
  CHECK(server.table("replay") == kept);
  CHECK(kept->try_insert(chunk_of(1)));
  CHECK(server.budget().used() == Table::memory_bytes(small_options()));
}

TEST_CASE("server: settings that are damaged, or without their arena, are named and nothing is touched") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  { Server({.data = data}).add_table("replay", small_options())->try_insert(chunk_of(5)); }
  const std::string settings = data + "/table-1.settings", arena = data + "/table-1.arena";
  const std::string good = contents(settings), experience = contents(arena);
  const auto refused = [&](const std::string& named) {
    check_error(ErrorKind::kCorrupt, named, [&] { Server{ServerOptions{.data = data}}; });
  };
  for (std::size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    std::string changed = good;
    changed[at] ^= 1;
    write(settings, changed);
    refused(settings);
    write(settings, good.substr(0, at));
    refused(settings);
  }
  write(settings, good + "x");
  refused(settings);
  write(settings, good);
  std::filesystem::remove(arena);
  refused(arena);
  CHECK_FALSE(std::filesystem::exists(arena));
  write(arena, "");
  refused(arena);
  write(arena, std::string(experience.size(), '\0'));
  refused(arena);
  std::string damaged = experience;
  damaged[40] ^= 1;  // in the header, and in its copy
  damaged[4096 + 40] ^= 1;
  write(arena, damaged);
  refused(arena);
  write(arena, experience.substr(0, experience.size() - 64));
  check_error(ErrorKind::kMismatch, arena, [&] { Server{ServerOptions{.data = data}}; });
  write(arena, experience);
  CHECK(contents(settings) == good);
  CHECK(Server({.data = data}).table("replay")->size() == 5);

  write(settings, "damaged");  // what the message says to do keeps the experience
  refused(".orphan");
  std::filesystem::rename(settings, folder.file("moved"));
  CHECK(Server({.data = data}).table_names().empty());
  CHECK(contents(arena + ".orphan") == experience);
}

TEST_CASE("server: it reports and counts what each table lost") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  {
    Server server({.data = data});
    for (const char* name : {"whole", "damaged"}) {
      const auto table = server.add_table(name, small_options());
      for (int i = 0; i < 3; ++i) table->try_insert(chunk_of(5));
    }
  }
  std::string arena = contents(data + "/table-2.arena");
  arena[arena.find("HRC2") + 70] ^= 1;
  write(data + "/table-2.arena", arena);
  const Server server({.data = data});
  REQUIRE(server.notices().size() == 1);
  const std::string notice = server.notices().front();
  for (const std::string& part :
       {std::string("\"damaged\""), data + "/table-2.arena", std::string(" 5 transitions"), std::string(" 10 were")}) {
    CAPTURE(part);
    CHECK_MESSAGE(notice.find(part) != std::string::npos, notice);
  }
  CHECK(server.table("damaged")->stats().lost == 5);
  CHECK(server.table("damaged")->size() == 10);
  CHECK(server.table("whole")->stats().lost == 0);
  CHECK(server.table("whole")->size() == 15);
}

TEST_CASE("server: two settings of one name are refused") {
  const ScratchFolder folder;
  const std::string data = folder.file("data");
  { Server({.data = data}).add_table("replay", small_options()); }
  std::filesystem::copy_file(data + "/table-1.settings", data + "/table-2.settings");
  std::filesystem::copy_file(data + "/table-1.arena", data + "/table-2.arena");
  check_error(ErrorKind::kCorrupt, "table-2.settings", [&] { Server{ServerOptions{.data = data}}; });
}

TEST_CASE("server: a table is paused and opened while the files of another are made") {
  const ScratchFolder folder;
  Server server({.data = folder.file("data")});
  server.add_table("other", small_options());
  std::atomic<bool> changed = false;
  std::thread peer;
  before_fsync = [&](const std::string&) {
    if (peer.joinable()) return;
    peer = std::thread([&] {
      server.set_state("other", TableState::kPaused);
      server.set_state("other", TableState::kOpen);
      changed.store(true);
    });
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!changed.load() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  };
  server.open_table("replay", small_options(), false);
  before_fsync = nullptr;
  CHECK(changed.load());
  REQUIRE(peer.joinable());
  peer.join();
}

TEST_CASE("server: a table that was dropped, or whose server is closed, stays closed") {
  Server server;
  const auto dropped = server.add_table("replay", small_options());
  server.drop("replay");
  check_error(ErrorKind::kClosed, "dropped", [&] { dropped->reopen(); });
  const auto table = server.add_table("replay", small_options());
  server.set_state("replay", TableState::kClosed);
  server.set_state("replay", TableState::kOpen);
  CHECK(table->try_insert(chunk_of(5)));
  server.close();
  check_error(ErrorKind::kClosed, "closed", [&] { server.set_state("replay", TableState::kOpen); });
}

}  // namespace
}  // namespace headrace
