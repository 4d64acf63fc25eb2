/* The limit of a sample: each transition's two stacks of frames copied from random places, and nothing else. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void gather(const uint8_t *source, const uint64_t *offset, size_t count, size_t bytes, size_t ahead,
            uint8_t *observation, uint8_t *next_observation) {
  for (size_t i = 0; i < count; ++i) {
    memcpy(observation + i * bytes, source + offset[i], bytes);
    memcpy(next_observation + i * bytes, source + offset[i] + ahead, bytes);
  }
}
