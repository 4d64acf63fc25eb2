// Names that one owner at a time may hold: a run's learner, an actor's slot. A claim lasts as long as its Hold, which
// a session keeps, so it ends with its owner's connection. An owner that may reconnect sets `keep`: after its
// connection has ended, the name stays reserved for that time. With a directory, these names are written to a file
// there, and a server that restarts reserves each of them from its start.
//
// Threading: every method may be called from any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace headrace {

class Claims {
 public:
  static constexpr std::size_t kMaxNames = 65536;
  static constexpr std::chrono::milliseconds kLongestKeep{600'000};

  class Hold;  // released by its destructor, from any thread, even after Claims is destroyed
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  explicit Claims(Clock clock = std::chrono::steady_clock::now);

  // Writes names to `directory` from now on, and reserves those already in it. Returns a warning for the user if
  // nothing can be reserved because the file is damaged or, if one is `expected`, missing; else an empty string. Throws
  // kSystem.
  std::string keep_in(const std::string& directory, bool expected);

  // kRefused where another owner holds the name, or it is reserved for another, or kMaxNames are taken. kInvalid:
  // `keep`. kSystem: the file can't be written. The same owner may claim a name again (its connection was lost, and the
  // server has not noticed yet): the new hold counts, and the end of the old one changes nothing. `run` is a number
  // that all starts of one run share, or 0: a later start may claim the name that is reserved for an earlier one.
  // With `keep` 0 a name is released as soon as its hold ends.
  std::shared_ptr<Hold> claim(const std::string& name, std::uint64_t owner, std::uint64_t run = 0,
                              std::chrono::milliseconds keep = {});
  std::vector<std::string> held(std::size_t most = kMaxNames) const;  // the first of them, sorted
  std::size_t size() const;                                           // how many are held

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headrace
