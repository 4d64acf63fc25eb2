#define HEADRACE_LANES 16
#define HEADRACE_ROWS 12
#define HEADRACE_NAME "avx512"
#define HEADRACE_KERNELS dense_avx512
#include "dense/dense_kernels_impl.h"
