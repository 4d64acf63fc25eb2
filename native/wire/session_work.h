// What a session may keep without the budget; part of session.cc and session_requests.cc.
#pragma once

#include <cstddef>

namespace headrace {

inline constexpr std::size_t kCopiedBytes = 256;  // fewer are copied into a reply: a reference takes as many

// Replies that wait for a peer where the budget has no room, so that it can be asked for stats, and to drop something.
inline constexpr std::size_t kUncountedReplyBytes = 64 << 10;

}  // namespace headrace
