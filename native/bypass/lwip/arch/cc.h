/* What lwIP needs to know about the compiler and the system; bypass/stack.cc has the functions. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t headrace_random(void);
uint16_t headrace_checksum(const void* data, int length); /* RFC 1071: the folded sum, not inverted */
__attribute__((noreturn)) void headrace_assertion_failed(const char* message);

#ifdef __cplusplus
}
#endif

#define LWIP_RAND headrace_random
#define LWIP_PLATFORM_DIAG(message)
#define LWIP_PLATFORM_ASSERT(message) headrace_assertion_failed(message)
