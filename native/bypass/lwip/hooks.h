/* Functions that lwIP calls; bypass/stack.cc has them. */
#pragma once

#include <lwip/ip_addr.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The initial sequence number of a connection, which its peers cannot predict (RFC 6528). */
u32_t headrace_initial_sequence(const ip_addr_t* local_ip, u16_t local_port, const ip_addr_t* remote_ip,
                                u16_t remote_port);
#define LWIP_HOOK_TCP_ISN headrace_initial_sequence

#ifdef __cplusplus
}
#endif
