#include "core/claims.h"

#include <utility>

#include "core/error.h"

namespace headrace {

struct Claims::State {
  struct Claim {
    std::uint64_t owner;
    const Hold* hold;  // that counts
  };
  std::mutex mutex;  // guards what follows
  std::map<std::string, Claim> claims;
};

class Claims::Hold {
 public:
  Hold(std::shared_ptr<State> state, std::string name) : state_(std::move(state)), name_(std::move(name)) {}
  ~Hold() {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->claims.find(name_);
    if (found != state_->claims.end() && found->second.hold == this) state_->claims.erase(found);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<State> state_;
  const std::string name_;
};

Claims::Claims() : state_(std::make_shared<State>()) {}

std::shared_ptr<Claims::Hold> Claims::claim(const std::string& name, std::uint64_t owner) {
  auto hold = std::make_shared<Hold>(state_, name);  // before the lock, which its destructor takes
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->claims.find(name);
  if (found != state_->claims.end() && found->second.owner != owner) {
    throw Error(ErrorKind::kRefused, "claim \"" + name + "\": another owner holds it, and one at a time may; " +
                                         "end the other, or choose another name");
  }
  if (found == state_->claims.end() && state_->claims.size() >= kMaxNames) {
    throw Error(ErrorKind::kRefused, "claim \"" + name + "\": " + std::to_string(kMaxNames) +
                                         " names are held, which is the limit; it is not granted");
  }
  state_->claims[name] = {owner, hold.get()};
  return hold;
}

std::vector<std::string> Claims::held(std::size_t most) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (auto at = state_->claims.begin(); at != state_->claims.end() && names.size() < most; ++at) {
    names.push_back(at->first);
  }
  return names;
}

std::size_t Claims::size() const {
  const std::lock_guard lock(state_->mutex);
  return state_->claims.size();
}

}  // namespace headrace
