// How much a session does before others have their turn, and what it may keep without the budget; part of session.cc,
// session_requests.cc and session_sampling.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headrace {

// A turn takes a few milliseconds: copies of 4 MiB, 256 chunks, or 4,096 priorities or transitions.
inline constexpr std::size_t kUnitsPerTurn = 64;
inline constexpr std::size_t kUnitBytes = 64 << 10;
inline constexpr std::size_t kChunksPerUnit = 4;
inline constexpr std::size_t kUpdatesPerUnit = 64;
inline constexpr std::size_t kTransitionsPerUnit = 64;
inline constexpr std::uint64_t kQuickInsertBytes = kUnitsPerTurn * kUnitBytes;  // a chunk is copied at one go

inline constexpr std::size_t kCopiedBytes = 256;  // fewer are copied into a reply: a reference takes as many

// Replies that wait for a peer where the budget has no room, so that it can be asked for stats, and to drop something.
inline constexpr std::size_t kUncountedReplyBytes = 64 << 10;

}  // namespace headrace
