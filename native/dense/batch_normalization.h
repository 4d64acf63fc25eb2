// Batch normalization of a layer's input, with the statistics of the batch or with running ones.
//
// Threading: one thread at a time for each object.
#pragma once

#include <cstddef>

#include "dense/dense_kernels.h"

namespace headrace {

// Running means and variances of a network's layers, and what a call does with them. Offsets into both vectors [S] are
// those of the layers.
struct BatchStatistics {
  const float* running = nullptr;
  float* measured = nullptr;  // where the batch's are written, which then normalize; null: the running ones normalize
  float most_scale = 1;       // limits of batch renormalization (Ioffe 2017): of r, and
  float most_shift = 0;       // of d; (1, 0) is batch normalization
};

// With the running ones, z' = (z - mean) / sigma, sigma^2 = max(variance, 0) + 1e-3. With those of the batch,
// z' = (z - batch mean) / batch sigma r + d, where r = batch sigma / sigma and d = (batch mean - mean) / sigma, clipped
// to [1 / most_scale, most_scale] and +-most_shift, are constants. y = gain z' + shift.
class BatchNormalization {
 public:
  // Floats that a layer with this distance of rows needs for a batch.
  static std::size_t floats(std::size_t stride, std::size_t batch) { return stride * (2 * batch + kColumns); }
  // Takes that many floats at `memory`, for `columns` columns.
  void place(float* memory, std::size_t columns, std::size_t stride, std::size_t batch);

  // y, the layer's input, for z: rows of this distance. `parameters`: gain and shift [columns]. `offset`: the place of
  // mean and variance [columns] in the statistics.
  void forward(const DenseKernels&, const float* parameters, const BatchStatistics&, std::size_t offset, const Rows& z);

  // Takes the gradient by y that is in gradient() back to the z of the last forward(): prepares derive(), and writes
  // that by gain and shift to `by_parameters` unless it is null.
  void backward(const DenseKernels&, const float* parameters, float* by_parameters, const Rows& z);
  // The gradient by columns of z, of which the first is `begin`, to `to`, or added to it.
  void derive(const DenseKernels&, const Rows& z, std::size_t begin, const Rows& to, bool add) const;

  float* outputs() const { return outputs_; }
  float* gradient() const { return gradient_; }

 private:
  static constexpr std::size_t kColumns = 7;  // vectors [stride]

  std::size_t columns_ = 0, stride_ = 0;
  float *outputs_ = nullptr, *gradient_ = nullptr;  // [capacity, stride]: y and the gradient by it
  float *center_ = nullptr, *slope_ = nullptr, *offset_ = nullptr, *inverse_ = nullptr;  // inverse: of batch sigma^2
  float *factor_ = nullptr, *mean_ = nullptr, *curve_ = nullptr;                         // see ColumnDerivative
  bool of_batch_ = false;
};

}  // namespace headrace
