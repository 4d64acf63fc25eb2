// Copies drawn transitions out of their chunks into a batch: the hot loop of the whole system.
//
// Threading: reads stored chunks only; the caller pins the transitions during the call.
#pragma once

#include <cstdint>
#include <span>

#include "core/table.h"
#include "core/transitions.h"

namespace headrace {

// Fills observation, next_observation, action, reward, discount and policy_version of `batch` [B] with the
// transitions of these keys in these slots [B each].
void gather(const Transitions& transitions, std::uint32_t stack, std::span<const std::uint64_t> keys,
            std::span<const std::uint64_t> slots, const BatchView& batch);

}  // namespace headrace
