#include "core/claims.h"

#include <utility>

#include "core/error.h"

namespace headrace {

struct Claims::State {
  struct Claim {
    std::uint64_t owner;
    std::uint64_t number;  // of the hold that counts
  };
  std::mutex mutex;  // guards what follows
  std::map<std::string, Claim> claims;
  std::uint64_t next_number = 1;
};

class Claims::Hold {
 public:
  Hold(std::shared_ptr<State> state, std::string name, std::uint64_t number)
      : state_(std::move(state)), name_(std::move(name)), number_(number) {}
  ~Hold() {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->claims.find(name_);
    if (found != state_->claims.end() && found->second.number == number_) state_->claims.erase(found);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<State> state_;
  const std::string name_;
  const std::uint64_t number_;
};

Claims::Claims() : state_(std::make_shared<State>()) {}

std::shared_ptr<Claims::Hold> Claims::claim(const std::string& name, std::uint64_t owner) {
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
  State::Claim& claim = state_->claims[name];
  claim = {owner, state_->next_number++};
  return std::make_shared<Hold>(state_, name, claim.number);
}

std::vector<std::string> Claims::held() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, claim] : state_->claims) names.push_back(name);
  return names;
}

}  // namespace headrace
