// Keeps batches ready ahead of a learner: a thread that samples into the caller's buffers in turn.
//
// Threading: next() and release() are called from one consumer thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/table.h"

namespace headrace {

class BatchAhead {
 public:
  // Samples into `buffers` (at least 2, all of one size), which must outlive this object.
  BatchAhead(Table& table, std::vector<BatchView> buffers, double importance_exponent);
  ~BatchAhead();  // stops the thread and joins it

  // Index of the next full buffer, in the order drawn; nullopt at the deadline. After an error of the sampling thread,
  // and once its full buffers are taken, every call rethrows the error.
  std::optional<std::size_t> next(Deadline deadline);
  void release(std::size_t index);  // the buffer may be filled again
  void set_importance_exponent(double importance_exponent);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace
