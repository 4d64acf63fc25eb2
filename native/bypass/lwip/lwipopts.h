/* Options of lwIP for one polling thread: its raw interface, IPv4, ARP, ICMP echo and TCP. */
#pragma once

/* One thread, no operating system; time and randomness come from bypass/stack.cc. */
#define NO_SYS 1
#define SYS_LIGHTWEIGHT_PROT 0
#define LWIP_NETCONN 0
#define LWIP_SOCKET 0
#define LWIP_TIMEVAL_PRIVATE 0
#define LWIP_DONT_PROVIDE_BYTEORDER_FUNCTIONS 1 /* the system has htons() and so on */

/* Memory: everything from malloc, so that no connection can use up what the others need; data by reference. What each
   connection may queue is limited: TCP_OOSEQ_MAX_PBUFS below, and TcpConnection's limits of what it sends. */
#define MEM_ALIGNMENT 8
#define MEM_LIBC_MALLOC 1
#define MEMP_MEM_MALLOC 1
#define LWIP_SUPPORT_CUSTOM_PBUF 1

/* Protocols. */
#define LWIP_IPV4 1
#define LWIP_IPV6 0
#define LWIP_ARP 1
#define LWIP_ETHERNET 1
#define LWIP_ICMP 1
#define LWIP_RAW 0
#define LWIP_UDP 0
#define IP_REASSEMBLY 0
#define IP_FRAG 0
#define ARP_QUEUEING 1
#define ARP_TABLE_SIZE 127
#define PBUF_NEEDS_COPY(pbuf) 1 /* what waits for an ARP answer may outlive the connection that it refers to */

/* TCP. The window is what a connection may hold unread (TcpConnection::kWindowBytes). */
#define LWIP_TCP 1
#define TCP_MSS 8960 /* MTU 9000; less where the interface or the peer says so */
#define LWIP_WND_SCALE 1
#define TCP_RCV_SCALE 5
#define TCP_WND (1 << 20)
#define TCP_SND_BUF (2 << 20)
#define TCP_SND_QUEUELEN 8192
#define TCP_SNDLOWAT (1 << 14)
#define TCP_SNDQUEUELOWAT 4
#define LWIP_DISABLE_TCP_SANITY_CHECKS 1 /* they assume received data in PBUF_POOL */
#define TCP_QUEUE_OOSEQ 1
#define TCP_OOSEQ_MAX_BYTES TCP_WND
#define TCP_OOSEQ_MAX_PBUFS 720 /* a window at MTU 1500; each frame that arrives walks the list of them */
#define LWIP_TCP_SACK_OUT 1
#define LWIP_TCP_KEEPALIVE 1
#define TCP_LISTEN_BACKLOG 1
#define TCP_MSL 2000UL
/* A tick of 20 ms: the shortest retransmission timeout is three ticks, above the 40 ms for which Linux delays an
   acknowledgment. lwIP's default is 1.5 s. */
#define TCP_TMR_INTERVAL 10
#define LWIP_TCP_RTO_TIME 1000

/* Checksums are made and verified in software: every kind of port may lead to a peer that verifies them. */
#define LWIP_CHECKSUM_ON_COPY 0
#define LWIP_CHKSUM headrace_checksum

#define LWIP_STATS 0
#define LWIP_HOOK_FILENAME "hooks.h"
