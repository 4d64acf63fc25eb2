#include "core/quantization.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

namespace headrace {
namespace {

constexpr std::size_t kTile = 64;     // its codes stay in the first cache while they are transposed
constexpr float kRounds = 0x1.8p23F;  // added to a small number, it rounds it to even into the low bits
constexpr std::uint32_t kSignless = ~0U >> 1;

// max|w|, or not finite if a weight is not: larger bits are larger magnitudes, and those of NaN are the largest.
float largest(std::span<const float> weights) {
  std::int32_t bits = 0;
  for (const float weight : weights) {
    bits = std::max(bits, static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(weight) & kSignless));
  }
  return std::bit_cast<float>(bits);
}

}  // namespace

void quantize_channels(std::span<const float> weights, std::size_t outputs, std::size_t inputs,
                       std::span<std::int8_t> codes, std::span<float> scales) {
  std::array<std::array<std::int8_t, kTile>, kTile> tile;
  for (std::size_t first = 0; first < outputs; first += kTile) {
    const std::size_t rows = std::min(kTile, outputs - first);
    for (std::size_t row = first; row < first + rows; ++row) {
      const float scale = largest(weights.subspan(row * inputs, inputs)) / kLargestCode;
      scales[row] = scale < std::numeric_limits<float>::min() ? 0 : scale;
    }
    for (std::size_t begin = 0; begin < inputs; begin += kTile) {
      const std::size_t columns = std::min(kTile, inputs - begin);
      for (std::size_t row = 0; row < rows; ++row) {
        const float* weight = weights.data() + (first + row) * inputs + begin;
        const float divisor = scales[first + row] == 0 ? 1 : scales[first + row];
        for (std::size_t i = 0; i < columns; ++i) {
          tile[row][i] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(weight[i] / divisor + kRounds));
        }
      }
      for (std::size_t i = 0; i < columns; ++i) {
        std::int8_t* code = codes.data() + (begin + i) * outputs + first;
        for (std::size_t row = 0; row < rows; ++row) code[row] = tile[row][i];
      }
    }
  }
}

}  // namespace headrace
