#include "core/file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <optional>

#include "core/arena.h"
#include "core/quiet_thread.h"
#include "core/shard_file.h"
#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::ScratchFolder;
using fixtures::small_signature;

constexpr std::size_t kPage = 4096;
constexpr int kReturned = 77;  // exit codes: the scenario was not ended by a signal,
constexpr int kHandled = 78;   // or by a handler of the test

// A file of three pages in the current folder.
int make_file(const char* name) {
  const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, 3 * kPage) != 0) std::abort();
  return file;
}

void cut(const char* name, std::size_t pages) {
  if (truncate(name, static_cast<off_t>(pages * kPage)) != 0) std::abort();
}

void touch(void* memory) { *static_cast<volatile char*>(memory) = 1; }

// Touches memory of a file that was cut short, without a FileMapping.
void fault_elsewhere() {
  void* const memory = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, make_file("plain"), 0);
  cut("plain", 0);
  touch(memory);
}

void touch_all_of_a_cut_file(std::size_t pages) {
  const int other = make_file("other");
  std::optional<FileMapping> earlier(std::in_place, other, 3 * kPage, "earlier");
  const FileMapping first(other, 3 * kPage, "first");
  earlier.reset();
  const FileMapping mapping(make_file("cut"), 3 * kPage, "data file cut"), last(other, 3 * kPage, "last");
  cut("cut", pages);
  touch(first.data());
  touch(last.data() + 2 * kPage);
  for (std::size_t page = 0; page < 3; ++page) touch(mapping.data() + page * kPage);
}

// What happens in a separate process, whose handlers no other test has changed, in an empty folder.
const std::map<std::string, void (*)()> kScenarios = {
    {"first page", [] { touch_all_of_a_cut_file(0); }},
    {"second page", [] { touch_all_of_a_cut_file(1); }},
    {"last page", [] { touch_all_of_a_cut_file(2); }},
    {"long name",
     [] {
       const FileMapping mapping(make_file("cut"), kPage, std::string(10'000, 'x'));
       cut("cut", 0);
       touch(mapping.data());
     }},
    {"arena",
     [] {
       Arena arena(small_signature(), 8 * kPage, "arena");
       cut("arena", 3);
       std::memset(arena.at(0), 1, 8 * kPage);
     }},
    {"shard",
     [] {
       const ShardOptions options{.size = 4};
       std::vector<std::byte> state(options.state_bytes());
       ShardFile shard("shard", "model", options, {.state = state});
       cut("shard", 0);
       shard.set_latest(1);
     }},
    {"native thread",
     [] {
       const FileMapping mapping(make_file("cut"), kPage, "data file cut");
       cut("cut", 0);
       start_quiet_thread([&] { touch(mapping.data()); }).join();
     }},
    {"fault elsewhere",
     [] {
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       fault_elsewhere();
     }},
    {"fault after unmapping",
     [] {
       { const FileMapping mapping(make_file("cut"), kPage, "cut"); }
       fault_elsewhere();
     }},
    {"sent",
     [] {
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       raise(SIGBUS);
     }},
    {"ignored",
     [] {
       std::signal(SIGBUS, SIG_IGN);
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       raise(SIGBUS);
     }},
    {"fault while ignored",
     [] {
       std::signal(SIGBUS, SIG_IGN);
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       fault_elsewhere();
     }},
    {"earlier handler",
     [] {
       std::signal(SIGBUS, [](int) { _exit(kHandled); });
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       fault_elsewhere();
     }},
    {"earlier handler with information",
     [] {
       struct sigaction own {};
       own.sa_flags = SA_SIGINFO;
       own.sa_sigaction = [](int, siginfo_t* info, void*) { _exit(info->si_code > 0 ? kReturned : kHandled); };
       sigaction(SIGBUS, &own, nullptr);
       const FileMapping mapping(make_file("cut"), kPage, "cut");
       raise(SIGBUS);
     }},
};

constexpr const char* kVariable = "HEADRACE_TEST_SCENARIO";

TEST_CASE("scenario of file_mapping_test" * doctest::skip()) {
  const char* const name = std::getenv(kVariable);
  if (name == nullptr) return;
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::signal(SIGBUS, SIG_DFL);  // not that of a sanitizer
  kScenarios.at(name)();
  _exit(kReturned);
}

struct Outcome {
  int status;
  std::string err;
};

Outcome outcome_of(const std::string& scenario) {
  CAPTURE(scenario);
  const ScratchFolder folder;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    setenv(kVariable, scenario.c_str(), 1);
    if (chdir(folder.file("").c_str()) == 0) {
      execl("/proc/self/exe", "headrace_tests", "--test-case=scenario of file_mapping_test", "--no-skip",
            "--out=/dev/null", nullptr);
    }
    _exit(kReturned);
  }
  close(ends[1]);
  Outcome outcome{};
  std::array<char, 4096> bytes;
  for (ssize_t count = 0; (count = read(ends[0], bytes.data(), bytes.size())) > 0;) {
    outcome.err.append(bytes.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  REQUIRE(waitpid(child, &outcome.status, 0) == child);
  return outcome;
}

bool exited_with(const Outcome& outcome, int code) {
  return WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == code;
}

TEST_CASE("file mapping: it has the file's bytes, and flushes them") {
  const ScratchFolder folder;
  const int file = make_file(folder.file("bytes").c_str());
  {
    const FileMapping mapping(file, 2 * kPage, "bytes");
    mapping.data()[kPage + 3] = std::byte{7};
    CHECK(mapping.flush());
  }
  char read = 0;
  CHECK(pread(file, &read, 1, kPage + 3) == 1);
  CHECK(read == 7);
  close(file);
  fixtures::check_error(ErrorKind::kSystem, "gone: 4096 bytes can't be mapped",
                        [] { const FileMapping mapping(-1, kPage, "gone"); });
}

TEST_CASE("file mapping: a page that can't be provided ends the process with one line that names the file") {
  const std::map<std::string, std::string> named = {{"first page", "data file cut"}, {"second page", "data file cut"},
                                                    {"last page", "data file cut"},  {"native thread", "data file cut"},
                                                    {"arena", "arena file arena"},   {"shard", "shard file shard"}};
  for (const auto& [scenario, name] : named) {
    const Outcome outcome = outcome_of(scenario);
    CAPTURE(scenario);
    CAPTURE(outcome.err);
    CHECK(exited_with(outcome, FileMapping::kExitCode));
    CHECK(outcome.err.starts_with("headrace: error: " + name + " "));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
  const Outcome outcome = outcome_of("long name");
  CHECK(exited_with(outcome, FileMapping::kExitCode));
  CHECK(outcome.err.ends_with("the process ends\n"));
}

TEST_CASE("file mapping: any other SIGBUS has the effect that it had before") {
  for (const char* scenario : {"fault elsewhere", "fault after unmapping", "sent", "fault while ignored"}) {
    const Outcome outcome = outcome_of(scenario);
    CAPTURE(scenario);
    CHECK(WIFSIGNALED(outcome.status));
    CHECK(WTERMSIG(outcome.status) == SIGBUS);
    CHECK(outcome.err.empty());
  }
  CHECK(exited_with(outcome_of("ignored"), kReturned));
  CHECK(exited_with(outcome_of("earlier handler"), kHandled));
  CHECK(exited_with(outcome_of("earlier handler with information"), kHandled));
}

}  // namespace
}  // namespace headrace
