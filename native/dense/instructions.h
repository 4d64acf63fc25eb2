// Which kernels this processor can run.
//
// Threading: pure functions.
#pragma once

#include <string_view>
#include <vector>

#include "dense/dense_kernels.h"

namespace headrace {

// The tables that this processor can run, the fastest first; the last is "portable".
std::vector<const DenseKernels*> available_kernels();

// The table of this name ("avx512", "avx2", "portable"), or the fastest for ""; throws kInvalid if there is none.
const DenseKernels& find_kernels(std::string_view name);

}  // namespace headrace
