// The arrays of one batch, checked once and then reused.
#pragma once

#include <array>
#include <memory>

#include "bindings/arrays.h"
#include "core/table.h"

namespace headrace::bindings {

class BatchArrays {
 public:
  using Objects = std::array<PyObject*, 9>;  // in the order of core's BatchView

  BatchArrays(const Signature& signature, const Objects& arrays);  // throws kInvalid

  const Signature& signature() const { return signature_; }
  const BatchView& view() const { return view_; }
  // Throws kInvalid where the arrays are not those of `signature`.
  void check(const Signature& signature) const;

 private:
  Signature signature_;
  std::array<std::unique_ptr<Buffer>, 9> buffers_;
  BatchView view_;
};

}  // namespace headrace::bindings
