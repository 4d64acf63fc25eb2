/* The limit of a server on a stream socket: takes a message, sends as many bytes as it asks for, and nothing else.

   bare_server unix BUFFER PATH | bare_server tcp BUFFER: prints the port, and serves one connection until it ends, with
   as many bytes of socket buffer (0: what the system gives). A message is 24 bytes and what follows them; the first
   eight bytes say how many follow, the next eight how many to send. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { kHeader = 24, kSource = 32 << 20 };

static int listening(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "unix") == 0) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, argv[3], sizeof(address.sun_path) - 1);
    const int socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(socket_, (struct sockaddr *)&address, sizeof(address)) != 0) exit(1);
    puts("0");
    return socket_;
  }
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(socket_, (struct sockaddr *)&address, size) != 0) exit(1);
  getsockname(socket_, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  return socket_;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  const int buffer = atoi(argv[2]);
  const int listener = listening(argc, argv);
  if (listen(listener, 1) != 0) return 1;
  fflush(stdout);
  const int peer = accept(listener, NULL, NULL);
  const int on = 1;
  if (argc == 3) setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (buffer > 0) setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  if (buffer > 0) setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
  uint8_t *source = malloc(kSource);
  memset(source, 7, kSource);
  static uint8_t message[1 << 20];
  for (;;) {
    size_t have = 0;
    uint64_t sizes[2] = {0, 0};
    while (have < kHeader || have < kHeader + sizes[0]) {
      const ssize_t count = recv(peer, message + have, sizeof(message) - have, 0);
      if (count <= 0) return 0;
      have += (size_t)count;
      if (have >= kHeader) memcpy(sizes, message, sizeof(sizes));
    }
    size_t at = 0;
    for (uint64_t left = sizes[1]; left > 0;) {
      const size_t piece = left < kSource - at ? left : kSource - at;
      const ssize_t count = send(peer, source + at, piece, MSG_NOSIGNAL);
      if (count <= 0) return 0;
      left -= (uint64_t)count;
      at = (at + (size_t)count) % kSource;
    }
  }
}
