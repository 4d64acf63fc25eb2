/* The other end of bare_server.c. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { kHeader = 24 };

static int receive_all(int peer, uint8_t *to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = recv(peer, to, bytes, 0);
    if (count <= 0) return -1;
    to += count;
    bytes -= (size_t)count;
  }
  return 0;
}

static int ask(int peer, size_t request, uint64_t reply) {
  uint8_t message[4096] = {0};
  const uint64_t sizes[2] = {request - kHeader, reply};
  memcpy(message, sizes, sizeof(sizes));
  return send(peer, message, request, MSG_NOSIGNAL) == (ssize_t)request ? 0 : -1;
}

/* `count` times: a message of `request` bytes there, one of `reply` bytes back. Both are 24 to 4096 bytes. */
int round_trips(int peer, size_t request, size_t reply, size_t count) {
  uint8_t answer[4096];
  for (; count > 0; --count) {
    if (ask(peer, request, reply) != 0 || receive_all(peer, answer, reply) != 0) return -1;
  }
  return 0;
}

/* One message there; `count` times `bytes` bytes back, into the `buffers` in turn. */
int receive_stream(int peer, uint8_t **buffers, size_t buffer_count, size_t bytes, size_t count) {
  if (ask(peer, kHeader, (uint64_t)bytes * count) != 0) return -1;
  for (size_t i = 0; i < count; ++i) {
    if (receive_all(peer, buffers[i % buffer_count], bytes) != 0) return -1;
  }
  return 0;
}
