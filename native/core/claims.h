// Names that one owner at a time may hold: a run's learner, an actor's place. A claim lasts as long as the object
// that stands for it, which a session keeps; so it ends with its owner's connection.
//
// Threading: every method may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace headrace {

class Claims {
 public:
  static constexpr std::size_t kMaxNames = 65536;

  class Hold;  // given back by its destructor, from any thread, even after Claims is gone

  Claims();

  // kRefused where another owner holds the name, or kMaxNames are held. Its own owner may claim it again (a connection
  // was lost, and the server has not noticed yet): the new hold counts, and the end of the old one changes nothing.
  std::shared_ptr<Hold> claim(const std::string& name, std::uint64_t owner);
  std::vector<std::string> held(std::size_t most = kMaxNames) const;  // the first of them, sorted
  std::size_t size() const;                                           // how many are held

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace headrace
