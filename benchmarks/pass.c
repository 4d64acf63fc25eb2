/* The limit of an update with one vector of statistics: each float of three vectors read once, of two written once. */
#include <stddef.h>

void one_pass(float *restrict parameters, float *restrict moments, const float *restrict gradient, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    moments[i] = 0.99f * moments[i] + gradient[i];
    parameters[i] -= 0.001f * moments[i];
  }
}
