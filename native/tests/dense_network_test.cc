#include "dense/dense_network.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core_fixtures.h"
#include "dense/instructions.h"
#include "dense_twin.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::DenseTwin;
using fixtures::Doubles;
using Inputs = std::vector<DenseInput>;

// Describes networks layer by layer, with their parameters one after another.
class Builder {
 public:
  explicit Builder(Inputs inputs) { description.inputs = std::move(inputs); }

  std::size_t add(std::optional<std::size_t> source, std::size_t outputs, Activation activation,
                  bool normalization = false, bool by_input = false) {
    std::size_t inputs = 0;
    for (const DenseInput& input : description.inputs) inputs += input.width;
    if (source) inputs = description.layers[*source].outputs;
    DenseLayer layer{inputs, outputs, take(inputs * outputs), take(outputs), activation, {}, source, by_input};
    if (normalization) layer.normalization = take(2 * outputs);
    description.layers.push_back(layer);
    return description.layers.size() - 1;
  }

  // A parameter that belongs to no layer.
  void skip() { take(1); }

  DenseDescription description;

 private:
  std::size_t take(std::size_t count) { return std::exchange(description.parameters, description.parameters + count); }
};

struct Case {
  const char* name;
  DenseDescription description;
};

DenseDescription plain(std::size_t inputs, std::vector<std::size_t> widths, Activation activation) {
  Builder builder(Inputs{{inputs}});
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    last = builder.add(last, widths[i], i + 1 < widths.size() ? activation : Activation::kNone);
  }
  return builder.description;
}

DenseDescription dueling(std::size_t actions) {
  Builder builder(Inputs{{7}});
  const auto torso = builder.add({}, 33, Activation::kRelu);
  const auto value = builder.add(torso, 17, Activation::kRelu), one = builder.add(value, 1, Activation::kNone);
  const auto advantage = builder.add(torso, 17, Activation::kRelu);
  builder.add(advantage, actions, Activation::kNone);
  CHECK(one == 2);
  builder.description.dueling = true;
  return builder.description;
}

// Policy and value; a parameter in front belongs to neither.
DenseDescription actor_critic() {
  Builder builder(Inputs{{5}});
  builder.skip();
  const auto torso = builder.add({}, 40, Activation::kTanh);
  builder.add(torso, 6, Activation::kTanh);
  builder.add(torso, 1, Activation::kNone);
  return builder.description;
}

DenseDescription distributional_critic() {
  Builder builder(Inputs{{11}, {3}});
  auto last = builder.add({}, 70, Activation::kTanh, true);
  last = builder.add(last, 19, Activation::kElu);
  builder.add(last, 51, Activation::kNone);
  return builder.description;
}

// Members side by side, weights [N, inputs, outputs] before biases [N, outputs], as torch multiplies them in batches.
DenseDescription twin_critics() {
  DenseDescription description{{{9}, {2}}, {}, 0};
  const std::vector<std::size_t> sizes = {11, 36, 20, 1};
  std::size_t weight = 0, bias = 2 * (11 * 36 + 36 * 20 + 20);
  std::vector<std::size_t> weights, biases;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    weights.push_back(std::exchange(weight, weight + 2 * sizes[i] * sizes[i + 1]));
    biases.push_back(std::exchange(bias, bias + 2 * sizes[i + 1]));
  }
  description.parameters = bias;
  for (std::size_t member = 0; member < 2; ++member) {
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
      DenseLayer layer{sizes[i], sizes[i + 1], weights[i] + member * sizes[i] * sizes[i + 1],
                       biases[i] + member * sizes[i + 1]};
      layer.activation = i + 2 < sizes.size() ? Activation::kRelu : Activation::kNone;
      layer.by_input = true;
      if (i > 0) layer.source = description.layers.size() - 1;
      description.layers.push_back(layer);
    }
  }
  return description;
}

DenseDescription normalized_relu() {
  Builder builder(Inputs{{6, true}, {4}});
  const auto first = builder.add({}, 18, Activation::kRelu, true);
  const auto second = builder.add(first, 16, Activation::kElu, true, true);
  builder.add(second, 3, Activation::kRelu);
  builder.add(first, 2, Activation::kElu);
  return builder.description;
}

DenseDescription silu() {
  Builder builder(Inputs{{6}, {3}});
  const auto first = builder.add({}, 40, Activation::kSilu, false, true);
  const auto second = builder.add(first, 37, Activation::kSilu, true);
  builder.add(second, 5, Activation::kNone, false, true);
  builder.add(first, 2, Activation::kSilu);
  return builder.description;
}

std::vector<Case> cases() {
  return {{"one layer", plain(3, {2}, Activation::kNone)},
          {"one number", plain(1, {1, 1}, Activation::kRelu)},
          {"small", plain(4, {8, 8, 2}, Activation::kRelu)},
          {"odd", plain(17, {65, 31, 5}, Activation::kRelu)},
          {"deep panels", plain(300, {33, 270, 4}, Activation::kTanh)},
          {"lunar lander", plain(8, {128, 128, 4}, Activation::kRelu)},
          {"elu", plain(6, {37, 3}, Activation::kElu)},
          {"dueling", dueling(5)},
          {"dueling, one action", dueling(1)},
          {"actor and critic", actor_critic()},
          {"distributional critic", distributional_critic()},
          {"twin critics", twin_critics()},
          {"normalized, bytes", normalized_relu()},
          {"silu", silu()}};
}

// Random parameters and a random batch, as floats for the network and as the same numbers for its twin.
struct Problem {
  Problem(const DenseDescription& description, std::size_t batch, std::uint32_t seed) : random(seed) {
    parameters = normal(description.parameters, 0.2f);
    for (const DenseInput& input : description.inputs) {
      inputs += input.width;
      floats.push_back(input.bytes ? std::vector<float>() : normal(batch * input.width, 1));
      bytes.emplace_back();
      for (std::size_t i = 0; input.bytes && i < batch * input.width; ++i) {
        bytes.back().push_back(static_cast<std::uint8_t>(random()));
      }
    }
    for (std::size_t m = 0; m < batch; ++m) {
      for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::size_t width = description.inputs[i].width;
        for (std::size_t n = m * width; n < (m + 1) * width; ++n) {
          x.push_back(description.inputs[i].bytes ? bytes[i][n] / 255.0 : floats[i][n]);
        }
      }
    }
    for (std::size_t i = 0; i < floats.size(); ++i) {
      const bool scaled = description.inputs[i].bytes;
      pointers.push_back(scaled ? static_cast<const void*>(bytes[i].data()) : floats[i].data());
    }
  }

  std::vector<float> normal(std::size_t count, float deviation) {
    std::normal_distribution<float> distribution(0, deviation);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random);
    return values;
  }

  std::mt19937 random;
  std::vector<float> parameters;
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::uint8_t>> bytes;
  std::vector<const void*> pointers;
  Doubles x;
  std::size_t inputs = 0;
};

Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// The largest difference, relative to the largest expected value.
double difference(const std::vector<float>& found, const Doubles& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(found[i] - expected[i]));
  }
  return error == 0 ? 0 : error / largest;
}

// Columns [begin, begin + width) of x [B, columns].
Doubles columns_of(const Doubles& x, std::size_t columns, std::size_t begin, std::size_t width) {
  Doubles part;
  for (std::size_t m = 0; m < x.size() / columns; ++m) {
    const auto from = x.begin() + static_cast<std::ptrdiff_t>(m * columns + begin);
    part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(width));
  }
  return part;
}

TEST_CASE("dense: outputs and gradients are those of a twin in doubles, for every instruction set") {
  constexpr float kUntouched = 12345;
  for (const DenseKernels* kernels : available_kernels()) {
    for (const Case& each : cases()) {
      DenseNetwork network(each.description, *kernels);
      for (const std::size_t batch : {1, 2, 7, 64, 301, 5}) {  // the last in memory that is larger than needed
        CAPTURE(std::string(kernels->name));
        CAPTURE(std::string(each.name));
        CAPTURE(batch);
        Problem problem(each.description, batch, 7);
        DenseTwin twin(each.description, doubles(problem.parameters));
        std::vector<float> y(batch * network.outputs());
        network.forward(problem.parameters.data(), problem.pointers, y.data(), batch);
        CHECK(difference(y, twin.forward(problem.x, batch)) < 1e-5);

        const std::vector<float> dy = problem.normal(y.size(), 1);
        const DenseTwin::Gradients expected = twin.backward(doubles(dy));
        std::vector<float> gradient(problem.parameters.size(), kUntouched);
        std::vector<std::vector<float>> dx;
        std::vector<float*> to;
        for (const DenseInput& input : each.description.inputs) {
          to.push_back(dx.emplace_back(batch * input.width, kUntouched).data());
        }
        network.backward(problem.parameters.data(), dy.data(), gradient.data(), to);
        if (gradient[0] == kUntouched) gradient[0] = 0;  // of no layer
        CHECK(std::ranges::count(gradient, kUntouched) == 0);
        CHECK(difference(gradient, expected.parameters) < 1e-5);
        std::size_t begin = 0;
        for (std::size_t i = 0; i < dx.size(); ++i) {
          const std::size_t width = each.description.inputs[i].width;
          CHECK(difference(dx[i], columns_of(expected.x, problem.inputs, begin, width)) < 1e-5);
          begin += width;
        }
      }
    }
  }
}

TEST_CASE("dense: the twin's gradients are finite differences") {
  for (const Case& each : cases()) {
    CAPTURE(std::string(each.name));
    constexpr std::size_t kBatch = 3;
    constexpr double kStep = 1e-6;
    Problem problem(each.description, kBatch, 3);
    const Doubles parameters = doubles(problem.parameters);
    DenseTwin twin(each.description, parameters);
    const Doubles dy = doubles(problem.normal(twin.forward(problem.x, kBatch).size(), 1));
    const auto value = [&](const Doubles& theta, const Doubles& x) {
      const Doubles y = DenseTwin(each.description, theta).forward(x, kBatch);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    const DenseTwin::Gradients gradients = twin.backward(dy);
    const auto slope = [&](std::size_t place, bool of_input) {
      Doubles theta[2] = {parameters, parameters}, x[2] = {problem.x, problem.x};
      for (const int side : {0, 1}) (of_input ? x : theta)[side][place] += side == 0 ? kStep : -kStep;
      return (value(theta[0], x[0]) - value(theta[1], x[1])) / (2 * kStep);
    };
    for (int i = 0; i < 30; ++i) {
      const std::size_t parameter = problem.random() % parameters.size(), input = problem.random() % problem.x.size();
      CHECK(gradients.parameters[parameter] == doctest::Approx(slope(parameter, false)).epsilon(1e-4).scale(1));
      CHECK(gradients.x[input] == doctest::Approx(slope(input, true)).epsilon(1e-4).scale(1));
    }
  }
}

TEST_CASE("dense: each gradient can be left out, and the others are the same") {
  const DenseDescription description = distributional_critic();
  constexpr std::size_t kBatch = 9;
  for (const DenseKernels* kernels : available_kernels()) {
    CAPTURE(std::string(kernels->name));
    DenseNetwork network(description, *kernels);
    Problem problem(description, kBatch, 1);
    std::vector<float> y(kBatch * network.outputs()), observation(kBatch * 11), action(kBatch * 3);
    network.forward(problem.parameters.data(), problem.pointers, y.data(), kBatch);
    const std::vector<float> dy = problem.normal(y.size(), 1);
    std::vector<float> gradient(problem.parameters.size());
    const std::vector<float*> both = {observation.data(), action.data()};
    network.backward(problem.parameters.data(), dy.data(), gradient.data(), both);

    std::vector<float> other(gradient.size());
    network.backward(problem.parameters.data(), dy.data(), other.data(), {});
    CHECK(other == gradient);
    std::vector<float> alone(action.size());
    const std::vector<float*> second = {nullptr, alone.data()};
    network.backward(problem.parameters.data(), dy.data(), nullptr, second);
    CHECK(alone == action);
  }
}

TEST_CASE("dense: a row's outputs do not depend on the other rows") {
  const DenseDescription description = plain(8, {128, 128, 4}, Activation::kRelu);
  for (const DenseKernels* kernels : available_kernels()) {
    CAPTURE(std::string(kernels->name));
    DenseNetwork network(description, *kernels);
    Problem problem(description, 30, 2);
    std::vector<float> y(30 * 4), one(4);
    network.forward(problem.parameters.data(), problem.pointers, y.data(), 30);
    for (std::size_t m = 0; m < 30; ++m) {
      const std::vector<const void*> row = {problem.floats[0].data() + m * 8};
      network.forward(problem.parameters.data(), row, one.data(), 1);
      CHECK(std::equal(one.begin(), one.end(), y.begin() + static_cast<std::ptrdiff_t>(m * 4)));
    }
  }
}

TEST_CASE("dense: what is not a number stays none") {
  for (const DenseKernels* kernels : available_kernels()) {
    for (const Case& each : cases()) {
      CAPTURE(std::string(kernels->name));
      CAPTURE(std::string(each.name));
      DenseNetwork network(each.description, *kernels);
      Problem problem(each.description, 2, 4);
      if (problem.floats[0].empty()) continue;  // bytes are always numbers
      problem.floats[0][0] = std::numeric_limits<float>::quiet_NaN();
      std::vector<float> y(2 * network.outputs());
      network.forward(problem.parameters.data(), problem.pointers, y.data(), 2);
      const auto width = static_cast<std::ptrdiff_t>(network.outputs());
      CHECK(std::all_of(y.begin(), y.begin() + width, [](float value) { return std::isnan(value); }));
      CHECK(std::none_of(y.begin() + width, y.end(), [](float value) { return std::isnan(value); }));
    }
  }
}

TEST_CASE("dense: descriptions that can't work are refused") {
  const DenseDescription good = plain(3, {4, 2}, Activation::kRelu);
  const auto refused = [&](const std::string& text, auto change) {
    DenseDescription description = good;
    change(description);
    check_error(ErrorKind::kInvalid, text, [&] { description.check(); });
  };
  good.check();
  refused("none given", [](auto& d) { d.layers.clear(); });
  refused("layer 1 has 5 inputs; 4 are required", [](auto& d) { d.layers[1].inputs = 5; });
  refused("layer 0 has 3 inputs; 7 are required", [](auto& d) { d.inputs.push_back({4}); });
  refused("layer 1 reads layer 1; an earlier one", [](auto& d) { d.layers[1].source = 1; });
  refused("widths above 0", [](auto& d) { d.layers[1].outputs = 0; });
  refused("layer 1 has parameters beyond the 25", [](auto& d) { d.parameters = 25; });
  refused("layer 0 has parameters beyond",
          [](auto& d) { d.layers[0].weight = std::numeric_limits<std::size_t>::max(); });
  refused("layer 1 has parameters beyond", [](auto& d) { d.layers[1].normalization = 23; });
  refused("a width of 0 given", [](auto& d) { d.inputs[0].width = 0; });
  refused("1 heads given, a value [1] and then advantages", [](auto& d) { d.dueling = true; });
}

TEST_CASE("dense: kernels are found by name") {
  const auto available = available_kernels();
  CHECK(&find_kernels("") == available.front());
  CHECK(std::string(available.back()->name) == "portable");
  for (const DenseKernels* kernels : available) CHECK(&find_kernels(kernels->name) == kernels);
  check_error(ErrorKind::kInvalid, "one that this processor has", [] { find_kernels("avx1024"); });
}

}  // namespace
}  // namespace headrace
