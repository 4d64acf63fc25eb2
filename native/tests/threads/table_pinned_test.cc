// An insert that has to overwrite what is being read: refused without waiting, and woken when the reader is done.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "core_fixtures.h"
#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

TEST_CASE("try_insert does not wait for a reader, and is woken when the reader is done") {
  constexpr std::uint32_t kSteps = 64;
  auto options = small_table();
  options.capacity = 64 * kSteps;  // a snapshot of more than a pipe takes
  Table table(options);
  const auto chunk = chunk_of(kSteps);
  for (int i = 0; i < 64; ++i) REQUIRE(table.try_insert(chunk));
  std::atomic<int> wakes = 0;
  const auto waker = table.add_waker([&] { ++wakes; });

  // A reader that stands still: a snapshot into a pipe that is not emptied yet. It begins at the oldest chunk.
  const auto path = std::filesystem::temp_directory_path() / ("headrace-pinned-" + std::to_string(::getpid()));
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  const int pipe = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(pipe >= 0);
  std::thread reader([&] {
    try {
      table.save(path);
    } catch (const Error&) {
      // A pipe can't be flushed to the disk; what matters here is that everything was read.
    }
  });
  std::array<std::byte, 4096> bytes;
  while (::read(pipe, bytes.data(), 1) != 1) std::this_thread::yield();  // the pin is set before the first byte

  // Chunks that the pipe has taken may be overwritten, and it takes more for a while after the first byte; the first
  // one that it has not is waited for by no one, however often it is asked for.
  int stored = 0;
  auto last = std::chrono::steady_clock::now();
  while (stored < 64 && std::chrono::steady_clock::now() < last + std::chrono::seconds(1)) {
    if (table.try_insert(chunk)) {
      ++stored;
      last = std::chrono::steady_clock::now();
    } else {
      std::this_thread::yield();
    }
  }
  CHECK(stored < 64);

  std::atomic<bool> waited = false;
  std::thread waiting([&] {
    table.insert(chunk, never());
    waited.store(true);
  });
  std::atomic<bool> tried = false;
  std::thread trying([&] {  // long enough for the other to be waiting
    for (int i = 0; i < 300; ++i) {
      CHECK_FALSE(table.try_insert(chunk));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    tried.store(true);
  });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!tried.load() && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
  CHECK_MESSAGE(tried.load(), "an insert that waits for a reader holds up one that does not wait");
  CHECK_FALSE(waited.load());

  std::atomic<bool> done = false;
  std::thread emptying([&] {
    while (!done.load()) {
      if (::read(pipe, bytes.data(), bytes.size()) <= 0) std::this_thread::yield();
    }
  });
  reader.join();
  waiting.join();
  trying.join();
  done.store(true);
  emptying.join();
  CHECK(wakes.load() > 0);
  CHECK(table.try_insert(chunk));
  table.remove_waker(waker);
  ::close(pipe);
  std::filesystem::remove(path);
}

TEST_CASE("closing a table ends an insert that waits for a reader") {
  auto options = small_table();
  options.capacity = 10;
  Table table(options);
  for (int i = 0; i < 2; ++i) REQUIRE(table.try_insert(chunk_of(5)));
  fixtures::Buffers batch(small_signature(), 4);
  const auto reader = table.try_draw(batch.view, 0);
  REQUIRE(reader);
  std::thread actor([&] {
    fixtures::check_error(ErrorKind::kClosed, "closed", [&] { table.insert(chunk_of(5), fixtures::soon(3000)); });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // in which it begins to wait
  table.close();
  actor.join();
}
