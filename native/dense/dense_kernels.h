// The arithmetic of dense layers on matrices of floats: one table of functions for each instruction set.
//
// Threading: pure functions of their arguments; two calls may run at once if their memory does not overlap.
//
// The kernels' files include this header and nothing else, but intrinsics, which are always inlined. They are compiled
// for instructions that not every processor has, and of an inline function of a standard header the linker might keep
// their copy, for all processors.
#pragma once

#include <cstddef>

namespace headrace {

enum class Activation : unsigned char { kNone, kRelu, kTanh, kElu, kSilu };

// What happens to each element of a product before it is stored.
enum class Finish : unsigned char {
  kNothing,
  kBias,      // plus extra[n]
  kBiasRelu,  // plus extra[n], then at least 0
  kRectified  // 0 where extra[m, n] is not above 0
};

// C[m, n] = finish(sum_k A[m, k] B[k, n]), added to C where `add` is set. A[m, k] is at a[m * a_row + k * a_depth].
// B[k, n] is at b[k * b_stride + n], or where `transposed` is set at b[n * b_stride + k]. `depth` is above 0.
struct Product {
  std::size_t rows, columns, depth;
  const float* a;
  std::size_t a_row, a_depth;
  const float* b;
  std::size_t b_stride;
  bool transposed;
  float* c;
  std::size_t c_row;
  Finish finish = Finish::kNothing;
  const float* extra = nullptr;
  std::size_t extra_row = 0;
  bool add = false;
};

// Values [rows, columns], whose rows are `stride` floats apart.
struct Rows {
  float* values;
  std::size_t rows, columns, stride;
};

// Layer normalization (Ba et al. 2016) of each row: z' = (z - mean) / sqrt(variance + 1e-5), y = gain z' + shift.
struct Normalization {
  const float *gain, *shift;  // [columns] each
  float* normalized;          // z', laid out like the values
  float* scale;               // [rows]: 1 / sqrt(variance + 1e-5)
};

// Batch normalization (Ioffe, Szegedy 2015) of each column: z' = (z - center) slope + offset, y = gain z' + shift. All
// are [columns]. The offset is 0, but with batch renormalization (see BatchNormalization).
struct ColumnNormalization {
  const float *gain, *shift, *center, *slope, *offset;
};

// The gradient g by y to that by z: factor (g - mean - (z - center) curve), with the sums over the rows in mean and
// curve, or 0 where center and slope do not depend on the rows. All are [columns].
struct ColumnDerivative {
  const float *factor, *mean, *center, *curve;
};

// Distributions [rows, atoms] over evenly spaced, increasing atoms: those of a next state's value v, and room for the
// projection of reward + discount v onto the same atoms.
struct Projection {
  std::size_t rows, atoms;         // at least 2 atoms
  const float* support;            // [atoms]
  const float* probability;        // [rows, atoms]
  const float *reward, *discount;  // [rows] each
  float* projected;                // [rows, atoms]
};

struct DenseKernels {
  const char* name;
  void (*product)(const Product&) noexcept;
  // sums[n] = the sum of column n.
  void (*sum_rows)(const Rows&, float* sums) noexcept;
  // z to f(z). SiLU also stores its slopes f'(z), laid out like z.
  void (*activate)(Activation, const Rows&, float* slopes) noexcept;
  // The gradient by f(z) to that by z, for outputs f(z), or SiLU's slopes, laid out like it.
  void (*derive)(Activation, const Rows& gradient, const float* kept) noexcept;
  // z to y; stores z' and the scale.
  void (*normalize)(const Normalization&, const Rows&) noexcept;
  // The gradient by y to that by z. Where `gain` is not null, writes the gradients by gain and shift.
  void (*derive_normalization)(const Normalization&, const Rows& gradient, float* gain, float* shift) noexcept;
  // The mean of each column, and the mean of the squared distances from it.
  void (*measure_columns)(const Rows&, float* mean, float* variance) noexcept;
  // Writes y for z to `to`, which has as many rows and columns.
  void (*normalize_columns)(const ColumnNormalization&, const Rows& z, const Rows& to) noexcept;
  // For each column, the sums of the gradient g and of g (z - center).
  void (*sum_columns)(const Rows& gradient, const Rows& z, const float* center, float* sums, float* products) noexcept;
  // Writes the gradient by z to `to`, or adds it.
  void (*derive_columns)(const ColumnDerivative&, const Rows& gradient, const Rows& z, const Rows& to,
                         bool add) noexcept;
  // p = e^z / sum(e^z) of each row, and log p, both laid out like z.
  void (*softmax)(const Rows& z, float* probability, float* log_probability) noexcept;
  // Bellemare et al. 2017, algorithm 1. NaN where a reward or discount is NaN.
  void (*project)(const Projection&) noexcept;
};

}  // namespace headrace
