// How a program interrupts a call that waits, for example on Ctrl-C.
#pragma once

#include <chrono>
#include <functional>

namespace headrace {

// Called about ten times a second while a call waits. What it throws ends the call.
using Interrupt = std::function<void()>;

inline constexpr auto kInterruptSlice = std::chrono::milliseconds(100);

}  // namespace headrace
