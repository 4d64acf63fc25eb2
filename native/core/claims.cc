#include "core/claims.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/claim_file.h"
#include "core/error.h"
#include "core/mutex.h"

namespace headrace {
namespace {

using Time = std::chrono::steady_clock::time_point;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kRefused, "claim \"" + name + "\": " + why);
}

}  // namespace

struct Claims::State {
  struct Claim {
    KeptClaim terms;
    const Hold* hold = nullptr;  // the one that counts; null: reserved
    Time reserved_until = {};
  };

  explicit State(Clock now) : clock(std::move(now)) {}

  bool forget_expired() REQUIRES(mutex) {
    const Time now = clock();
    if (now < first_expiry) return false;
    first_expiry = Time::max();
    const std::size_t before = claims.size();
    for (auto at = claims.begin(); at != claims.end();) {
      const Claim& claim = at->second;
      if (claim.hold == nullptr && claim.reserved_until > now) {
        first_expiry = std::min(first_expiry, claim.reserved_until);
      }
      const bool expired = claim.hold == nullptr && claim.reserved_until <= now;
      at = expired ? claims.erase(at) : std::next(at);
    }
    return claims.size() < before;
  }
  void reserve(Claim& claim, Time until) REQUIRES(mutex) {
    claim.hold = nullptr;
    claim.reserved_until = until;
    first_expiry = std::min(first_expiry, until);
  }
  void write() const REQUIRES(mutex) {
    if (!file) return;
    std::vector<KeptClaim> kept;
    for (const auto& [name, claim] : claims) {
      if (claim.terms.keep.count() > 0) kept.push_back(claim.terms);
    }
    file->write(kept);
  }
  void check_free(const Claim& claim, std::uint64_t owner, std::uint64_t run) const REQUIRES(mutex);

  const Clock clock;
  Mutex mutex;
  std::map<std::string, Claim> claims GUARDED_BY(mutex);
  Time first_expiry GUARDED_BY(mutex) = Time::max();  // not after the first reservation's end
  std::optional<ClaimFile> file GUARDED_BY(mutex);
};

class Claims::Hold {
 public:
  Hold(std::shared_ptr<State> state, std::string name) : state_(std::move(state)), name_(std::move(name)) {}
  ~Hold() {
    const LockGuard lock(state_->mutex);
    const auto found = state_->claims.find(name_);
    if (found == state_->claims.end() || found->second.hold != this) return;
    const auto keep = found->second.terms.keep;
    if (keep.count() == 0) {
      state_->claims.erase(found);
    } else {
      state_->reserve(found->second, state_->clock() + keep);
    }
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  const std::shared_ptr<State> state_;
  const std::string name_;
};

Claims::Claims(Clock clock) : state_(std::make_shared<State>(std::move(clock))) {}

std::string Claims::keep_in(const std::string& directory, bool expected) {
  const LockGuard lock(state_->mutex);
  state_->file.emplace(directory);
  const auto found = state_->file->read();
  const Time now = state_->clock();
  for (const KeptClaim& kept : found.claims) {
    state_->reserve(state_->claims[kept.name] = {.terms = kept}, now + kept.keep);
  }
  if (found.state == ClaimFile::kWhole) return {};
  state_->write();
  if (found.state == ClaimFile::kMissing && !expected) return {};
  return state_->file->path() + (found.state == ClaimFile::kMissing ? " is missing" : " is damaged") +
         ": no name is reserved for a run that reconnects";
}

void Claims::State::check_free(const Claim& claim, std::uint64_t owner, std::uint64_t run) const {
  const KeptClaim& terms = claim.terms;
  if (terms.owner == owner) return;
  if (claim.hold != nullptr) {
    refuse(terms.name, "another owner holds it; stop that one, or choose another name");
  }
  if (run != 0 && terms.run == run) return;
  const auto left = std::chrono::ceil<std::chrono::seconds>(claim.reserved_until - clock());
  refuse(terms.name, "its owner's connection was lost and may come back; the name is kept for it for another " +
                         std::to_string(left.count()) + " s");
}

std::shared_ptr<Claims::Hold> Claims::claim(const std::string& name, std::uint64_t owner, std::uint64_t run,
                                            std::chrono::milliseconds keep) {
  if (keep.count() < 0 || keep > kLongestKeep) {
    throw Error(ErrorKind::kInvalid,
                "keep " + std::to_string(keep.count()) + " ms: required 0 to " + std::to_string(kLongestKeep.count()));
  }
  auto hold = std::make_shared<Hold>(state_, name);  // before the lock, which its destructor takes
  const LockGuard lock(state_->mutex);
  bool changed = state_->forget_expired();
  std::optional<State::Claim> before;
  if (const auto found = state_->claims.find(name); found != state_->claims.end()) {
    state_->check_free(found->second, owner, run);
    before = found->second;
  } else if (state_->claims.size() >= kMaxNames) {
    refuse(name, std::to_string(kMaxNames) + " names are held, which is the limit; it is not granted");
  }
  const State::Claim claim{{name, owner, run, keep}, hold.get(), {}};
  state_->claims[name] = claim;
  changed |= before ? before->terms != claim.terms : keep.count() > 0;
  if (!changed) return hold;
  try {
    state_->write();
  } catch (...) {
    if (before) {
      state_->claims[name] = *before;
    } else {
      state_->claims.erase(name);
    }
    throw;
  }
  return hold;
}

std::vector<std::string> Claims::held(std::size_t most) const {
  const LockGuard lock(state_->mutex);
  std::vector<std::string> names;
  for (auto at = state_->claims.begin(); at != state_->claims.end() && names.size() < most; ++at) {
    if (at->second.hold != nullptr) names.push_back(at->first);
  }
  return names;
}

std::size_t Claims::size() const {
  const LockGuard lock(state_->mutex);
  std::size_t count = 0;
  for (const auto& [name, claim] : state_->claims) count += claim.hold != nullptr;
  return count;
}

}  // namespace headrace
