#include "core/writers.h"

#include "core/entropy.h"

namespace headrace {

Writers::Writers(std::size_t limit) : limit_(limit), places_(0, Hash{draw_entropy()}) {}

const Writers::Last* Writers::find(std::uint64_t writer) const {
  const auto found = places_.find(writer);
  return found != places_.end() ? &*found->second : nullptr;
}

const Writers::Last* Writers::repeated(std::uint64_t writer, std::uint64_t sequence) const {
  if (writer == 0) return nullptr;
  const Last* last = find(writer);
  return last != nullptr && sequence <= last->sequence ? last : nullptr;
}

void Writers::remember(const Last& last) {
  const auto [place, is_new] = places_.try_emplace(last.writer, by_silence_.end());
  if (is_new) {
    place->second = by_silence_.insert(by_silence_.end(), last);
    if (places_.size() > limit_) forget_longest_silent();
    return;
  }
  *place->second = last;
  by_silence_.splice(by_silence_.end(), by_silence_, place->second);
}

void Writers::forget_longest_silent() {
  places_.erase(by_silence_.front().writer);
  by_silence_.pop_front();
}

void Writers::clear() {
  places_.clear();
  by_silence_.clear();
}

}  // namespace headrace
