// lwIP, the user-space TCP stack. A process has one.
//
// Threading: one thread, the same for everything in this folder that uses lwIP.
#pragma once

#include "core/table.h"

namespace headrace::bypass {

void start_stack();  // the first call; later ones do nothing

// Sets the stack's time and runs its timers that are due: retransmissions, delayed acknowledgments, keepalive. Once
// for each turn, with times that never decrease.
void advance_stack(Deadline now);

}  // namespace headrace::bypass
