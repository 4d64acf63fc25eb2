// Activations through a network of one layer with weight 1 and bias 0.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core_fixtures.h"
#include "dense/dense_network.h"
#include "dense/instructions.h"

namespace headrace {
namespace {

std::vector<float> whole_range() {
  std::vector<float> x = {0, -0.0f, 1e-30f, -1e-30f, 88, -88, 1e30f, -1e30f, 200, -200};
  for (float size = 1e-9f; size < 100; size *= 1.07f) x.insert(x.end(), {size, -size});
  return x;
}

// Outputs for inputs, and the slopes there: the gradient by the input.
struct Curve {
  Curve(Activation activation, const DenseKernels& kernels, const std::vector<float>& x)
      : outputs(x.size()), slopes(x.size()) {
    const std::vector<float> parameters = {1, 0}, dy(x.size(), 1);
    const std::vector<const void*> inputs = {x.data()};
    const std::vector<float*> to = {slopes.data()};
    DenseNetwork network({{{1}}, {{1, 1, 0, 1, activation}}, 2}, kernels);
    network.forward(parameters.data(), inputs, outputs.data(), x.size());
    network.backward(parameters.data(), dy.data(), nullptr, to);
  }

  std::vector<float> outputs, slopes;
};

TEST_CASE("dense: tanh and ELU are accurate in the whole range of floats") {
  const std::vector<float> x = whole_range();
  for (const DenseKernels* kernels : available_kernels()) {
    CAPTURE(std::string(kernels->name));
    const Curve tanh(Activation::kTanh, *kernels, x), elu(Activation::kElu, *kernels, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double z = x[i], expected[] = {std::tanh(z), z > 0 ? z : std::expm1(z)};
      CAPTURE(z);
      CHECK(std::abs(tanh.outputs[i] - expected[0]) <= 1e-6 * std::abs(expected[0]));
      CHECK(std::abs(elu.outputs[i] - expected[1]) <= 1e-6 * std::abs(expected[1]));
    }
  }
}

// Both are 0 below -87, where they are smaller than 1e-35. The slope is a sum, as accurate as the larger of its terms.
TEST_CASE("dense: SiLU and its slope are accurate in the whole range of floats") {
  const std::vector<float> x = whole_range();
  for (const DenseKernels* kernels : available_kernels()) {
    CAPTURE(std::string(kernels->name));
    const Curve silu(Activation::kSilu, *kernels, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double z = x[i], sigmoid = 1 / (1 + std::exp(-z)), output = z * sigmoid, term = output / (1 + std::exp(z));
      CAPTURE(z);
      CHECK(std::abs(silu.outputs[i] - output) <= 1e-6 * std::abs(output) + 1e-35);
      CHECK(std::abs(silu.slopes[i] - (sigmoid + term)) <= 1e-6 * std::max(sigmoid, std::abs(term)) + 1e-35);
    }
  }
}

}  // namespace
}  // namespace headrace
