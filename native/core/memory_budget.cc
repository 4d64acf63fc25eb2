#include "core/memory_budget.h"

#include <string>

#include "core/error.h"

namespace headrace {

std::optional<MemoryBudget::Share> MemoryBudget::try_take(std::uint64_t bytes) {
  std::uint64_t used = used_.load();
  do {
    if (bytes > limit_ - used) return std::nullopt;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return Share(*this, bytes);
}

MemoryBudget::Share MemoryBudget::take(std::uint64_t bytes, std::string_view purpose) {
  if (auto share = try_take(bytes)) return std::move(*share);
  throw Error(ErrorKind::kRefused, std::string(purpose) + " needs " + std::to_string(bytes) + " bytes, but " +
                                       std::to_string(used()) + " of the memory budget of " + std::to_string(limit_) +
                                       " are in use; it is refused until some are free or the budget is raised");
}

}  // namespace headrace
