/* A long wire: two TUN devices, each packet of one comes out of the other after a fixed delay, in order.
 *
 *   wire DEVICE DEVICE DELAY_NANOSECONDS BUFFER_BYTES
 *
 * Prints "ready" once both devices exist; the parent process then moves each into the namespace of its host. The
 * rate is not held here but by a token bucket on each device, so that a sender is held back rather than its packets
 * lost. Segments of up to 64 kB pass as one packet (virtio-net headers say how to cut them), so that 10 Gbit/s are
 * 20,000 packets a second. Ends with the process that started it, and the devices with it.
 *
 * One thread for each direction: it reads packets into a ring, notes when each is due, and writes those that are. A
 * full ring is read no further; the kernel then drops what its queue can't hold, as a switch would.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
  LARGEST_PACKET = 65536 + 128,
  SPIN_NANOSECONDS = 200000, /* a shorter delay is waited for awake, because timers are some 60 us late */
};

struct packet {
  uint64_t due;  /* nanoseconds of the monotonic clock */
  uint64_t size; /* bytes that follow, the virtio-net header among them */
};

struct direction {
  int from, to;
  uint64_t delay;
  uint8_t* ring; /* mapped twice in a row, so that no packet wraps */
  size_t ring_size;
};

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int open_device(const char* name) {
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
  strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (ioctl(device, TUNSETIFF, &request) < 0) fail("TUNSETIFF");
  if (ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0) fail("TUNSETOFFLOAD");
  return device;
}

static size_t room_for(size_t size) { return (sizeof(struct packet) + size + 15) / 16 * 16; }

static uint8_t* map_ring(size_t size) {
  int memory = memfd_create("wire", MFD_CLOEXEC);
  if (memory < 0 || ftruncate(memory, (off_t)size) < 0) fail("memfd_create");
  uint8_t* ring = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int copy = 0; copy < 2; ++copy) {
    int flags = MAP_SHARED | MAP_FIXED;
    if (ring == MAP_FAILED ||
        mmap(ring + (size_t)copy * size, size, PROT_READ | PROT_WRITE, flags, memory, 0) == MAP_FAILED) {
      fail("mmap");
    }
  }
  close(memory);
  return ring;
}

static void* carry(void* argument) {
  struct direction* self = argument;
  prctl(PR_SET_TIMERSLACK, 1);
  size_t head = 0, tail = 0; /* bytes ever read and written */
  for (;;) {
    int room = self->ring_size - (head - tail) >= room_for(LARGEST_PACKET);
    ssize_t size = 0;
    if (room) {
      struct packet* next = (struct packet*)(self->ring + head % self->ring_size);
      size = read(self->from, next + 1, LARGEST_PACKET);
      if (size < 0 && errno != EAGAIN) fail("read");
      if (size > 0) {
        *next = (struct packet){now() + self->delay, (uint64_t)size};
        head += room_for((size_t)size);
      }
    }
    uint64_t time = now(), due = UINT64_MAX;
    while (head > tail) {
      const struct packet* first = (const struct packet*)(self->ring + tail % self->ring_size);
      due = first->due;
      if (due > time) break;
      /* What the device refuses (it is down, there is no memory) is lost, as on any wire. */
      if (write(self->to, first + 1, first->size) < 0 && errno == EBADFD) fail("write");
      tail += room_for(first->size);
    }
    if (size > 0) continue;
    if (head > tail && self->delay < SPIN_NANOSECONDS) continue;
    struct pollfd readable = {.fd = self->from, .events = POLLIN};
    uint64_t rest = due > (time = now()) ? due - time : 0;
    struct timespec wait = {.tv_sec = (time_t)(rest / 1000000000u), .tv_nsec = (long)(rest % 1000000000u)};
    ppoll(&readable, room ? 1 : 0, head > tail ? &wait : NULL, NULL);
  }
  return NULL;
}

int main(int count, char** words) {
  if (count != 5) {
    fprintf(stderr, "usage: wire DEVICE DEVICE DELAY_NANOSECONDS BUFFER_BYTES\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  int one = open_device(words[1]), other = open_device(words[2]);
  struct direction directions[2] = {{.from = one, .to = other}, {.from = other, .to = one}};
  pthread_t thread;
  printf("ready\n");
  fflush(stdout);
  for (int i = 0; i < 2; ++i) {
    directions[i].delay = strtoull(words[3], NULL, 10);
    directions[i].ring_size = (strtoull(words[4], NULL, 10) | 0x1fffff) + 1; /* whole pages */
    directions[i].ring = map_ring(directions[i].ring_size);
    if (pthread_create(&thread, NULL, carry, &directions[i])) fail("pthread_create");
  }
  pthread_join(thread, NULL);
  return 0;
}
