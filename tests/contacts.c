// Preloaded into a process: writes down every host that it looks up and every address that it contacts beyond this
// machine, into the file that HEADRACE_CONTACTS names, and lets none of it happen.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(const char* call, const char* peer) {
  const int file = open(getenv("HEADRACE_CONTACTS"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  dprintf(file, "%s %s\n", call, peer);
  close(file);
}

static int is_local_name(const char* name) {
  return name == NULL || strcmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 || strcmp(name, "::1") == 0;
}

// Whether the call may go on; if not, it is on record and errno is set.
static int allowed(const char* call, const struct sockaddr* peer) {
  char text[INET6_ADDRSTRLEN] = "";
  if (peer != NULL && peer->sa_family == AF_INET) {
    inet_ntop(AF_INET, &((const struct sockaddr_in*)peer)->sin_addr, text, sizeof(text));
  } else if (peer != NULL && peer->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &((const struct sockaddr_in6*)peer)->sin6_addr, text, sizeof(text));
  } else {
    return 1;
  }
  if (is_local_name(text)) return 1;
  note(call, text);
  errno = ENETUNREACH;
  return 0;
}

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** found) {
  if (!is_local_name(node)) return note("getaddrinfo", node), EAI_FAIL;
  int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) = dlsym(RTLD_NEXT, "getaddrinfo");
  return real(node, service, hints, found);
}

struct hostent* gethostbyname(const char* name) {
  struct hostent* (*real)(const char*) = dlsym(RTLD_NEXT, "gethostbyname");
  return is_local_name(name) ? real(name) : (note("gethostbyname", name), NULL);
}

int connect(int socket, const struct sockaddr* peer, socklen_t length) {
  int (*real)(int, const struct sockaddr*, socklen_t) = dlsym(RTLD_NEXT, "connect");
  return allowed("connect", peer) ? real(socket, peer, length) : -1;
}

ssize_t sendto(int socket, const void* data, size_t size, int flags, const struct sockaddr* peer, socklen_t length) {
  ssize_t (*real)(int, const void*, size_t, int, const struct sockaddr*, socklen_t) = dlsym(RTLD_NEXT, "sendto");
  return allowed("sendto", peer) ? real(socket, data, size, flags, peer, length) : -1;
}
