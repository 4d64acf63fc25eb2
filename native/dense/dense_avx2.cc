#define HEADRACE_LANES 8
#define HEADRACE_ROWS 6
#define HEADRACE_NAME "avx2"
#define HEADRACE_KERNELS dense_avx2
#include "dense/dense_kernels_impl.h"
