#include "dense/batch_normalization.h"

#include <algorithm>
#include <cmath>

namespace headrace {
namespace {

constexpr float kEpsilon = 1e-3f;

}  // namespace

void BatchNormalization::place(float* memory, std::size_t columns, std::size_t stride, std::size_t batch) {
  columns_ = columns;
  stride_ = stride;
  outputs_ = memory;
  gradient_ = outputs_ + stride * batch;
  float* next = gradient_ + stride * batch;
  for (float** vector : {&center_, &slope_, &offset_, &inverse_, &factor_, &mean_, &curve_}) {
    *vector = next;
    next += stride;
  }
}

void BatchNormalization::forward(const DenseKernels& kernels, const float* parameters,
                                 const BatchStatistics& statistics, std::size_t offset, const Rows& z) {
  const float *mean = statistics.running + offset, *variance = mean + columns_;
  of_batch_ = statistics.measured != nullptr;
  if (of_batch_) {
    float *batch_mean = statistics.measured + offset, *batch_variance = batch_mean + columns_;
    kernels.measure_columns(z, batch_mean, batch_variance);
    for (std::size_t n = 0; n < columns_; ++n) {
      const float sigma = std::sqrt(std::max(variance[n], 0.0f) + kEpsilon);
      const float batch_sigma = std::sqrt(batch_variance[n] + kEpsilon);
      const float r = std::clamp(batch_sigma / sigma, 1 / statistics.most_scale, statistics.most_scale);
      center_[n] = batch_mean[n];
      slope_[n] = r / batch_sigma;
      offset_[n] = std::clamp((batch_mean[n] - mean[n]) / sigma, -statistics.most_shift, statistics.most_shift);
      inverse_[n] = 1 / (batch_sigma * batch_sigma);
    }
  } else {
    for (std::size_t n = 0; n < columns_; ++n) {
      center_[n] = mean[n];
      slope_[n] = 1 / std::sqrt(std::max(variance[n], 0.0f) + kEpsilon);
      offset_[n] = 0;
    }
  }
  kernels.normalize_columns({parameters, parameters + columns_, center_, slope_, offset_}, z,
                            {outputs_, z.rows, columns_, stride_});
}

// With s = sum(g) and p = sum(g (z - center)) of a column: the gradient by the gain is slope p + offset s, and by the
// shift s. That by z is gain slope (g - s / B - (z - center) p / (B batch sigma^2)), or gain slope g where center and
// slope are constants.
void BatchNormalization::backward(const DenseKernels& kernels, const float* parameters, float* by_parameters,
                                  const Rows& z) {
  if (of_batch_ || by_parameters != nullptr) {
    kernels.sum_columns({gradient_, z.rows, columns_, stride_}, z, center_, mean_, curve_);
  }
  const float share = 1 / static_cast<float>(z.rows);
  for (std::size_t n = 0; n < columns_; ++n) {
    if (by_parameters != nullptr) {
      by_parameters[n] = slope_[n] * curve_[n] + offset_[n] * mean_[n];
      by_parameters[columns_ + n] = mean_[n];
    }
    mean_[n] = of_batch_ ? mean_[n] * share : 0;
    curve_[n] = of_batch_ ? curve_[n] * inverse_[n] * share : 0;
    factor_[n] = parameters[n] * slope_[n];
  }
}

void BatchNormalization::derive(const DenseKernels& kernels, const Rows& z, std::size_t begin, const Rows& to,
                                bool add) const {
  kernels.derive_columns({factor_ + begin, mean_ + begin, center_ + begin, curve_ + begin},
                         {gradient_ + begin, z.rows, to.columns, stride_},
                         {z.values + begin, z.rows, to.columns, z.stride}, to, add);
}

}  // namespace headrace
