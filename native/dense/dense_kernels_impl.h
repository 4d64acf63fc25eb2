// The kernels' code, compiled once for each instruction set with its flags (see CMakeLists.txt). The including file
// defines HEADRACE_LANES (floats in a register), HEADRACE_ROWS (rows of a tile of a product), HEADRACE_NAME and
// HEADRACE_KERNELS (the variable with the table).
//
// Vector extensions instead of loops for the compiler to vectorize: that fails without notice for some tile sizes, and
// then costs a factor of 50. They also compile for registers narrower than the vectors.
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "dense/dense_kernels.h"

namespace headrace {
namespace {

constexpr std::size_t kLanes = HEADRACE_LANES, kRows = HEADRACE_ROWS;
constexpr std::size_t kPanel = 2 * kLanes;  // columns of a tile
constexpr std::size_t kDepth = 256;         // rows of B in a panel: both stay in the first-level cache
constexpr std::size_t kBlock = 264;         // rows of A that stay in the second-level cache for all panels

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
typedef float Unaligned __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int Integers __attribute__((vector_size(kLanes * sizeof(float))));
typedef unsigned Bits __attribute__((vector_size(kLanes * sizeof(float))));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = value; }
inline Vector all(float value) { return Vector{} + value; }
inline std::size_t lesser(std::size_t a, std::size_t b) { return a < b ? a : b; }

// `count` floats, at most kLanes; the other lanes are those of `rest`.
inline Vector load_some(const float* from, std::size_t count, Vector rest = Vector{}) {
  if (count == kLanes) return load(from);
#ifdef __AVX512F__
  return _mm512_mask_loadu_ps(rest, static_cast<__mmask16>((1u << count) - 1), from);
#else
  alignas(kLanes * sizeof(float)) float lanes[kLanes];
  store(lanes, rest);
  for (std::size_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
#endif
}

inline void store_some(float* to, Vector value, std::size_t count) {
  if (count == kLanes) return store(to, value);
#ifdef __AVX512F__
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << count) - 1), value);
#else
  alignas(kLanes * sizeof(float)) float lanes[kLanes];
  store(lanes, value);
  for (std::size_t i = 0; i < count; ++i) to[i] = lanes[i];
#endif
}

inline float sum(Vector value) {
  float total = 0;
  for (std::size_t i = 0; i < kLanes; ++i) total += value[i];
  return total;
}

template <std::size_t... I>
struct Indices {};
template <std::size_t N, std::size_t... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <std::size_t... I>
struct Count<0, I...> {
  using Type = Indices<I...>;
};

#if defined(__clang__)
#define HEADRACE_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define HEADRACE_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Integers{__VA_ARGS__})
#endif

// One step of a transposition (Eklundh 1972): blocks of S x S on either side of the diagonal are exchanged.
template <std::size_t S, std::size_t... I>
inline void exchange(Vector& above, Vector& below, Indices<I...>) {
  const Vector first = HEADRACE_SHUFFLE(above, below, static_cast<int>((I & S) == 0 ? I : kLanes + I - S)...);
  below = HEADRACE_SHUFFLE(above, below, static_cast<int>((I & S) == 0 ? I + S : kLanes + I)...);
  above = first;
}

template <std::size_t S>
inline void transpose(Vector (&square)[kLanes]) {
  if constexpr (S > 0) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      if ((i & S) == 0) exchange<S>(square[i], square[i + S], typename Count<kLanes>::Type());
    }
    transpose<S / 2>(square);
  }
}

// Copies `columns` columns of B, at most kPanel, into a panel [depth, kPanel]; the other columns are 0.
void pack(const float* b, std::size_t stride, std::size_t depth, std::size_t columns, float* panel) {
  const std::size_t first = lesser(columns, kLanes), second = columns - first;
  for (std::size_t k = 0; k < depth; ++k, b += stride, panel += kPanel) {
    store(panel, load_some(b, first));
    store(panel + kLanes, load_some(b + first, second));
  }
}

// The same for B[k, n] at b[n * stride + k], in squares of kLanes x kLanes. Columns of the panel that are not needed to
// fill a register keep what they hold.
void pack_transposed(const float* b, std::size_t stride, std::size_t depth, std::size_t columns, float* panel) {
  for (std::size_t n = 0; n < columns; n += kLanes) {
    const std::size_t width = lesser(columns - n, kLanes);
    for (std::size_t k = 0; k < depth; k += kLanes) {
      const std::size_t height = lesser(depth - k, kLanes);
      const float* from = b + n * stride + k;
      Vector square[kLanes];
      for (std::size_t i = 0; i < kLanes; ++i) {
        square[i] = i < width ? load_some(from + i * stride, height) : Vector{};
      }
      transpose<kLanes / 2>(square);
      for (std::size_t i = 0; i < height; ++i) store(panel + (k + i) * kPanel + n, square[i]);
    }
  }
}

// A part of a product: a panel of B, the rows of A and C that meet it, and where it stands in the sums over k.
struct Part {
  std::size_t depth, columns;
  const float* a;
  const float* panel;
  float* c;
  const float* extra;
  bool first, last;
};

// R rows and V registers of columns of C, whose sums stay in registers.
template <std::size_t R, std::size_t V, Finish F>
inline __attribute__((always_inline)) void tile(const Product& p, const Part& t) {
  constexpr bool kBiased = F == Finish::kBias || F == Finish::kBiasRelu;
  const auto width = [&](std::size_t j) { return t.columns > j * kLanes ? lesser(t.columns - j * kLanes, kLanes) : 0; };
  Vector sums[R][V];
  for (std::size_t j = 0; j < V; ++j) {
    const Vector start = kBiased && t.first ? load_some(t.extra + j * kLanes, width(j)) : Vector{};
    for (std::size_t i = 0; i < R; ++i) {
      sums[i][j] = t.first ? start : load_some(t.c + i * p.c_row + j * kLanes, width(j));
    }
  }
  const float* panel = t.panel;
  const float* a = t.a;
  for (std::size_t k = 0; k < t.depth; ++k, panel += kPanel, a += p.a_depth) {
    Vector b[V];
    for (std::size_t j = 0; j < V; ++j) b[j] = load(panel + j * kLanes);
    for (std::size_t i = 0; i < R; ++i) {
      for (std::size_t j = 0; j < V; ++j) sums[i][j] += a[i * p.a_row] * b[j];
    }
  }
  for (std::size_t i = 0; i < R; ++i) {
    for (std::size_t j = 0; j < V; ++j) {
      Vector value = sums[i][j];
      if (t.last && F == Finish::kBiasRelu) value = value < 0.0f ? Vector{} : value;  // keeps NaN
      if (t.last && F == Finish::kRectified) {
        value = load_some(t.extra + i * p.extra_row + j * kLanes, width(j)) > 0.0f ? value : Vector{};
      }
      store_some(t.c + i * p.c_row + j * kLanes, value, width(j));
    }
  }
}

template <std::size_t R, std::size_t V, Finish F>
std::size_t tiles(const Product& p, const Part& whole, std::size_t row) {
  for (; row + R <= p.rows; row += R) {
    Part t = whole;
    t.a += row * p.a_row;
    t.c += row * p.c_row;
    if (F == Finish::kRectified) t.extra += row * p.extra_row;
    tile<R, V, F>(p, t);
  }
  return row;
}

template <std::size_t V, Finish F>
void panel_product(const Product& p, const Part& t) {
  std::size_t row = tiles<kRows, V, F>(p, t, 0);
  row = tiles<4, V, F>(p, t, row);
  tiles<1, V, F>(p, t, row);
}

template <Finish F>
void finished_product(const Product& whole) {
  alignas(64) float panel[kDepth * kPanel];
  for (std::size_t m = 0; m < whole.rows; m += kBlock) {
    Product p = whole;
    p.rows = lesser(whole.rows - m, kBlock);
    p.a += m * p.a_row;
    p.c += m * p.c_row;
    if (F == Finish::kRectified) p.extra += m * p.extra_row;
    for (std::size_t n = 0; n < p.columns; n += kPanel) {
      const std::size_t columns = lesser(p.columns - n, kPanel);
      for (std::size_t k = 0; k < p.depth; k += kDepth) {
        const std::size_t depth = lesser(p.depth - k, kDepth);
        if (p.transposed) {
          pack_transposed(p.b + n * p.b_stride + k, p.b_stride, depth, columns, panel);
        } else {
          pack(p.b + k * p.b_stride + n, p.b_stride, depth, columns, panel);
        }
        const float* extra = F == Finish::kNothing ? nullptr : p.extra + n;
        const Part t{depth,   columns, p.a + k * p.a_depth, panel,
                     p.c + n, extra,   k == 0 && !p.add,    k + depth == p.depth};
        if (columns > kLanes) {
          panel_product<2, F>(p, t);
        } else {
          panel_product<1, F>(p, t);
        }
      }
    }
  }
}

void product(const Product& p) noexcept {
  switch (p.finish) {
    case Finish::kNothing:
      return finished_product<Finish::kNothing>(p);
    case Finish::kBias:
      return finished_product<Finish::kBias>(p);
    case Finish::kBiasRelu:
      return finished_product<Finish::kBiasRelu>(p);
    case Finish::kRectified:
      return finished_product<Finish::kRectified>(p);
  }
}

void sum_rows(const Rows& x, float* sums) noexcept {
  constexpr std::size_t kWide = 4;  // registers
  for (std::size_t n = 0; n < x.columns; n += kWide * kLanes) {
    std::size_t counts[kWide];
    for (std::size_t j = 0; j < kWide; ++j) {
      const std::size_t begin = n + j * kLanes;
      counts[j] = begin < x.columns ? lesser(x.columns - begin, kLanes) : 0;
    }
    Vector totals[kWide] = {};
    for (std::size_t m = 0; m < x.rows; ++m) {
      const float* row = x.values + m * x.stride + n;
      for (std::size_t j = 0; j < kWide; ++j) totals[j] += load_some(row + j * kLanes, counts[j]);
    }
    for (std::size_t j = 0; j < kWide; ++j) store_some(sums + n + j * kLanes, totals[j], counts[j]);
  }
}

// e^x = 2^n (e^r - 1) + 2^n with x = n log 2 + r, and the polynomial of Cephes' expf for e^r - 1.
struct Exponential {
  Vector change, power;  // 2^n (e^r - 1) and 2^n
};

inline Exponential exponential(Vector x) {
  x = x < -87.0f ? all(-87.0f) : x;
  x = x > 88.0f ? all(88.0f) : x;
  const Vector scaled = x * 1.44269504088896341f;
  const Integers n = __builtin_convertvector(scaled + (scaled < 0.0f ? all(-0.5f) : all(0.5f)), Integers);
  const Vector whole = __builtin_convertvector(n, Vector);
  const Vector r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const Vector power = (Vector)(((Bits)n + 127u) << 23);
  return {(p * r * r + r) * power, power};
}

inline Vector exp(Vector x) {
  const Exponential e = exponential(x);
  return e.change + e.power;
}

// To a few units in the last place also around 0, where e^x - 1 loses its digits.
inline Vector exp_minus_1(Vector x) {
  const Exponential e = exponential(x);
  return e.change + (e.power - 1.0f);
}

inline Vector tanh(Vector x) {
  Vector size = x < 0.0f ? -x : x;
  size = size > 10.0f ? all(10.0f) : size;  // there tanh is 1
  const Vector e = exp_minus_1(2.0f * size);
  const Vector y = e / (e + 2.0f);
  return x < 0.0f ? -y : y;
}

// z sigmoid(z), and its slope sigmoid(z) (1 + z sigmoid(-z)) (Elfwing et al. 2018). Of the two sigmoids, the smaller is
// 1 / (e^|z| + 1) and the larger 1 minus that, so that both are accurate.
inline Vector silu(Vector z, Vector& slope) {
  const Vector size = z < 0.0f ? -z : z;
  const Vector small = size > 87.0f ? Vector{} : 1.0f / (exp_minus_1(size) + 2.0f);  // denormal from 87.4 on
  const Vector large = 1.0f - small;
  const Vector sigmoid = z < 0.0f ? small : large, y = z * sigmoid;
  slope = sigmoid + y * (z < 0.0f ? large : small);
  return y;
}

// Applies f(value, m * stride + n) to every register of rows.
template <typename F>
inline void each(const Rows& x, F f) {
  for (std::size_t m = 0; m < x.rows; ++m) {
    for (std::size_t n = 0; n < x.columns; n += kLanes) {
      const std::size_t at = m * x.stride + n, count = lesser(x.columns - n, kLanes);
      store_some(x.values + at, f(load_some(x.values + at, count), at, count), count);
    }
  }
}

void activate(Activation f, const Rows& x, float* slopes) noexcept {
  switch (f) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return each(x, [](Vector z, std::size_t, std::size_t) { return z < 0.0f ? Vector{} : z; });
    case Activation::kTanh:
      return each(x, [](Vector z, std::size_t, std::size_t) { return tanh(z); });
    case Activation::kElu:
      return each(x, [](Vector z, std::size_t, std::size_t) { return z > 0.0f ? z : exp_minus_1(z); });
    case Activation::kSilu:
      return each(x, [slopes](Vector z, std::size_t at, std::size_t count) {
        Vector slope;
        const Vector y = silu(z, slope);
        store_some(slopes + at, slope, count);
        return y;
      });
  }
}

// By the outputs y: 1 where y > 0 for ReLU, 1 - y^2 for tanh, and 1 or, below 0, e^z = y + 1 for ELU. By the slopes for
// SiLU, which is not monotonic: its output does not tell its slope.
void derive(Activation f, const Rows& gradient, const float* kept) noexcept {
  switch (f) {
    case Activation::kNone:
      return;
    case Activation::kRelu:
      return each(gradient, [kept](Vector g, std::size_t at, std::size_t count) {
        return load_some(kept + at, count) > 0.0f ? g : Vector{};
      });
    case Activation::kTanh:
      return each(gradient, [kept](Vector g, std::size_t at, std::size_t count) {
        const Vector y = load_some(kept + at, count);
        return g * (1.0f - y * y);
      });
    case Activation::kElu:
      return each(gradient, [kept](Vector g, std::size_t at, std::size_t count) {
        const Vector y = load_some(kept + at, count);
        return y > 0.0f ? g : g * (y + 1.0f);
      });
    case Activation::kSilu:
      return each(gradient,
                  [kept](Vector g, std::size_t at, std::size_t count) { return g * load_some(kept + at, count); });
  }
}

void normalize(const Normalization& norm, const Rows& x) noexcept {
  const auto columns = static_cast<float>(x.columns);
  for (std::size_t m = 0; m < x.rows; ++m) {
    const Rows row{x.values + m * x.stride, 1, x.columns, x.stride};
    float* const normalized = norm.normalized + m * x.stride;
    Vector total{};
    for (std::size_t n = 0; n < x.columns; n += kLanes) {
      total += load_some(row.values + n, lesser(x.columns - n, kLanes));
    }
    const float mean = sum(total) / columns;
    Vector squares{};
    for (std::size_t n = 0; n < x.columns; n += kLanes) {
      const std::size_t count = lesser(x.columns - n, kLanes);
      const Vector distance = load_some(row.values + n, count) - mean;
      store_some(normalized + n, distance, count);
      const Vector kept = load_some(normalized + n, count);  // 0 beyond the columns
      squares += kept * kept;
    }
    const float scale = 1 / __builtin_sqrtf(sum(squares) / columns + 1e-5f);
    norm.scale[m] = scale;
    each(row, [&](Vector, std::size_t n, std::size_t count) {
      const Vector value = load_some(normalized + n, count) * scale;
      store_some(normalized + n, value, count);
      return value * load_some(norm.gain + n, count) + load_some(norm.shift + n, count);
    });
  }
}

// With g = gain * the gradient by y: scale * (g - mean(g) - z' mean(g z')).
void derive_normalization(const Normalization& norm, const Rows& gradient, float* gain, float* shift) noexcept {
  if (gain != nullptr) {
    for (std::size_t n = 0; n < gradient.columns; n += kLanes) {
      const std::size_t count = lesser(gradient.columns - n, kLanes);
      Vector gains{}, shifts{};
      for (std::size_t m = 0; m < gradient.rows; ++m) {
        const Vector g = load_some(gradient.values + m * gradient.stride + n, count);
        gains += g * load_some(norm.normalized + m * gradient.stride + n, count);
        shifts += g;
      }
      store_some(gain + n, gains, count);
      store_some(shift + n, shifts, count);
    }
  }
  const float share = 1 / static_cast<float>(gradient.columns);
  for (std::size_t m = 0; m < gradient.rows; ++m) {
    const Rows row{gradient.values + m * gradient.stride, 1, gradient.columns, gradient.stride};
    const float* const normalized = norm.normalized + m * gradient.stride;
    Vector total{}, product{};
    for (std::size_t n = 0; n < row.columns; n += kLanes) {
      const std::size_t count = lesser(row.columns - n, kLanes);
      const Vector g = load_some(row.values + n, count) * load_some(norm.gain + n, count);
      total += g;
      product += g * load_some(normalized + n, count);
    }
    const float mean = sum(total) * share, slope = sum(product) * share, scale = norm.scale[m];
    each(row, [&](Vector value, std::size_t n, std::size_t count) {
      return scale * (value * load_some(norm.gain + n, count) - mean - load_some(normalized + n, count) * slope);
    });
  }
}

void softmax(const Rows& z, float* probability, float* log_probability) noexcept {
  for (std::size_t m = 0; m < z.rows; ++m) {
    const std::size_t start = m * z.stride;
    const float* const row = z.values + start;
    Vector most = all(row[0]);
    for (std::size_t n = 0; n < z.columns; n += kLanes) {
      const Vector value = load_some(row + n, lesser(z.columns - n, kLanes), most);
      most = value > most ? value : most;
    }
    float largest = most[0];
    for (std::size_t i = 1; i < kLanes; ++i) largest = most[i] > largest ? most[i] : largest;
    Vector total{};
    for (std::size_t n = 0; n < z.columns; n += kLanes) {
      const std::size_t count = lesser(z.columns - n, kLanes);
      const Vector e = exp(load_some(row + n, count) - largest);
      store_some(probability + start + n, e, count);
      total += load_some(probability + start + n, count);  // 0 beyond the columns
    }
    const float whole = sum(total), share = 1 / whole, log_whole = __builtin_logf(whole);
    for (std::size_t n = 0; n < z.columns; n += kLanes) {
      const std::size_t count = lesser(z.columns - n, kLanes);
      store_some(probability + start + n, load_some(probability + start + n, count) * share, count);
      store_some(log_probability + start + n, load_some(row + n, count) - largest - log_whole, count);
    }
  }
}

void project(const Projection& p) noexcept {
  const std::size_t last = p.atoms - 1;
  const float first = p.support[0], end = static_cast<float>(last), density = end / (p.support[last] - first);
  for (std::size_t m = 0; m < p.rows; ++m) {
    const float* const probability = p.probability + m * p.atoms;
    float* const projected = p.projected + m * p.atoms;
    for (std::size_t n = 0; n < p.atoms; ++n) projected[n] = 0;
    for (std::size_t n = 0; n < p.atoms; ++n) {
      float place = (p.reward[m] + p.discount[m] * p.support[n] - first) * density;  // in units of atoms
      place = place < 0.0f ? 0.0f : place;                                           // keeps NaN
      place = place > end ? end : place;
      const std::size_t lower = place >= 1.0f ? lesser(static_cast<std::size_t>(place), last - 1) : 0;
      const float above = (place - static_cast<float>(lower)) * probability[n];
      projected[lower] += probability[n] - above;
      projected[lower + 1] += above;
    }
  }
}

}  // namespace
}  // namespace headrace

#include "dense/column_kernels_impl.h"

namespace headrace {

extern const DenseKernels HEADRACE_KERNELS;
const DenseKernels HEADRACE_KERNELS = {
    HEADRACE_NAME,    &product,           &sum_rows,    &activate,       &derive,  &normalize, &derive_normalization,
    &measure_columns, &normalize_columns, &sum_columns, &derive_columns, &softmax, &project};

}  // namespace headrace
