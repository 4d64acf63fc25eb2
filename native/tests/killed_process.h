// A process that works until it is killed, for tests of what it leaves behind.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>

namespace headrace::fixtures {

// Tells the parent what has been acknowledged: a plain write to a pipe, which alone both processes agree on after a
// kill. False if the parent is gone.
using Tell = std::function<bool(std::uint64_t)>;

// Forks a process that runs `work`, and kills it after it told of `count` things and some microseconds longer. Returns
// the last that it told of, or `before` if there was none.
inline std::uint64_t run_until_killed(const std::function<void(const Tell&)>& work, std::uint64_t before,
                                      unsigned count, useconds_t longer) {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    try {
      work([pipe = ends[1]](std::uint64_t done) { return write(pipe, &done, sizeof(done)) == sizeof(done); });
    } catch (const std::exception&) {
    }
    _exit(1);  // which its parent will notice
  }
  close(ends[1]);
  std::uint64_t last = before, told = 0;
  const auto next = [&] { return read(ends[0], &told, sizeof(told)) == sizeof(told); };
  for (unsigned i = 0; i < count && next(); ++i) last = told;
  usleep(longer);
  kill(child, SIGKILL);
  while (next()) last = told;  // what was in the pipe
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  close(ends[0]);
  return last;
}

}  // namespace headrace::fixtures
