#define HEADRACE_LANES 4
#define HEADRACE_ROWS 6
#define HEADRACE_NAME "portable"
#define HEADRACE_KERNELS dense_portable
#include "dense/dense_kernels_impl.h"
