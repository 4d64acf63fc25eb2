// Weights as 8-bit integers.
//
// Threading: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace {

inline constexpr int kLargestCode = 127;

// Codes [I, O] in [-127, 127] and scales [O] of weights [O, I], so that w = scale * code within scale / 2, with a scale
// of max|w| / 127, or 0 where that is too small a divisor. If an output's weights are not all finite, its scale is not
// either, and its codes are undefined.
void quantize_channels(std::span<const float> weights, std::size_t outputs, std::size_t inputs,
                       std::span<std::int8_t> codes, std::span<float> scales);

}  // namespace headrace
