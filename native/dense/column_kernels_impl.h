// The part of the kernels' code for batch normalization; dense_kernels_impl.h includes it after what it uses.
#pragma once

namespace headrace {
namespace {

// Calls f<R>(begin, count) for blocks of columns that fill R registers, of which the last has `count` columns.
template <typename F>
inline void column_blocks(std::size_t columns, F f) {
  constexpr std::size_t kWide = 4;
  std::size_t n = 0;
  for (; n + kWide * kLanes <= columns; n += kWide * kLanes) f.template operator()<kWide>(n, kLanes);
  for (; n < columns; n += kLanes) f.template operator()<1>(n, lesser(columns - n, kLanes));
}

void measure_columns(const Rows& x, float* mean, float* variance) noexcept {
  const float share = 1 / static_cast<float>(x.rows);
  column_blocks(x.columns, [&]<std::size_t R>(std::size_t begin, std::size_t count) {
    Vector totals[R] = {}, squares[R] = {};
    for (std::size_t m = 0; m < x.rows; ++m) {
      const float* row = x.values + m * x.stride + begin;
      for (std::size_t j = 0; j < R; ++j) totals[j] += load_some(row + j * kLanes, count);
    }
    for (std::size_t j = 0; j < R; ++j) totals[j] *= share;
    for (std::size_t m = 0; m < x.rows; ++m) {
      const float* row = x.values + m * x.stride + begin;
      for (std::size_t j = 0; j < R; ++j) {
        const Vector distance = load_some(row + j * kLanes, count) - totals[j];
        squares[j] += distance * distance;
      }
    }
    for (std::size_t j = 0; j < R; ++j) {
      store_some(mean + begin + j * kLanes, totals[j], count);
      store_some(variance + begin + j * kLanes, squares[j] * share, count);
    }
  });
}

void normalize_columns(const ColumnNormalization& norm, const Rows& z, const Rows& to) noexcept {
  for (std::size_t m = 0; m < z.rows; ++m) {
    const float* const from = z.values + m * z.stride;
    each({to.values + m * to.stride, 1, to.columns, to.stride}, [&](Vector, std::size_t n, std::size_t count) {
      const Vector distance = load_some(from + n, count) - load_some(norm.center + n, count);
      const Vector value = distance * load_some(norm.slope + n, count) + load_some(norm.offset + n, count);
      return value * load_some(norm.gain + n, count) + load_some(norm.shift + n, count);
    });
  }
}

void sum_columns(const Rows& gradient, const Rows& z, const float* center, float* sums, float* products) noexcept {
  column_blocks(z.columns, [&]<std::size_t R>(std::size_t begin, std::size_t count) {
    Vector totals[R] = {}, weighted[R] = {}, centers[R];
    for (std::size_t j = 0; j < R; ++j) centers[j] = load_some(center + begin + j * kLanes, count);
    for (std::size_t m = 0; m < z.rows; ++m) {
      const float* const from = gradient.values + m * gradient.stride + begin;
      const float* const value = z.values + m * z.stride + begin;
      for (std::size_t j = 0; j < R; ++j) {
        const Vector g = load_some(from + j * kLanes, count);
        totals[j] += g;
        weighted[j] += g * (load_some(value + j * kLanes, count) - centers[j]);
      }
    }
    for (std::size_t j = 0; j < R; ++j) {
      store_some(sums + begin + j * kLanes, totals[j], count);
      store_some(products + begin + j * kLanes, weighted[j], count);
    }
  });
}

void derive_columns(const ColumnDerivative& by, const Rows& gradient, const Rows& z, const Rows& to,
                    bool add) noexcept {
  for (std::size_t m = 0; m < z.rows; ++m) {
    const float* const from = gradient.values + m * gradient.stride;
    const float* const value = z.values + m * z.stride;
    each({to.values + m * to.stride, 1, to.columns, to.stride}, [&](Vector before, std::size_t n, std::size_t count) {
      const Vector distance = load_some(value + n, count) - load_some(by.center + n, count);
      const Vector g =
          load_some(from + n, count) - load_some(by.mean + n, count) - distance * load_some(by.curve + n, count);
      const Vector change = g * load_some(by.factor + n, count);
      return add ? before + change : change;
    });
  }
}

}  // namespace
}  // namespace headrace
