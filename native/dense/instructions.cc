#include "dense/instructions.h"

#include <string>

#include "core/error.h"

namespace headrace {

extern const DenseKernels dense_portable;
#if defined(__x86_64__)
extern const DenseKernels dense_avx512, dense_avx2;
#endif

std::vector<const DenseKernels*> available_kernels() {
  std::vector<const DenseKernels*> available;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma")) {
    if (__builtin_cpu_supports("avx512f")) available.push_back(&dense_avx512);
    if (__builtin_cpu_supports("avx2")) available.push_back(&dense_avx2);
  }
#endif
  available.push_back(&dense_portable);
  return available;
}

const DenseKernels& find_kernels(std::string_view name) {
  std::string names;
  for (const DenseKernels* kernels : available_kernels()) {
    if (name.empty() || name == kernels->name) return *kernels;
    names += (names.empty() ? "" : ", ") + std::string(kernels->name);
  }
  throw Error(ErrorKind::kInvalid, "instructions: \"" + std::string(name.substr(0, 200)) +
                                       "\" given, one that this processor has required: " + names);
}

}  // namespace headrace
