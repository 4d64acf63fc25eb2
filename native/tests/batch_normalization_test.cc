// Networks whose layers normalize their inputs by batch, next to a twin in doubles.
#include "dense/batch_normalization.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core_fixtures.h"
#include "dense/dense_network.h"
#include "dense/instructions.h"
#include "dense_twin.h"

namespace headrace {
namespace {

using fixtures::check_error;
using fixtures::DenseTwin;
using fixtures::Doubles;
using fixtures::TwinBatch;

// Two streams over inputs of 9 and 3 numbers, each normalized; the second layer's outputs have two readers, of which
// one is not normalized; one weight is stored by input.
DenseDescription streams() {
  DenseDescription description{{{9}, {3}}, {}, 0};
  const auto add = [&](std::optional<std::size_t> source, std::size_t inputs, std::size_t outputs,
                       Activation activation, bool normalized, bool by_input) {
    const auto take = [&](std::size_t count) {
      return std::exchange(description.parameters, description.parameters + count);
    };
    DenseLayer layer{inputs, outputs, take(inputs * outputs), take(outputs), activation, {}, source, by_input};
    if (normalized) {
      layer.batch = BatchNormalized{take(2 * inputs), description.statistics};
      description.statistics += 2 * inputs;
    }
    description.layers.push_back(layer);
    return description.layers.size() - 1;
  };
  const auto first = add({}, 12, 70, Activation::kRelu, true, false);
  const auto second = add(first, 70, 33, Activation::kRelu, true, true);
  add(second, 33, 2, Activation::kNone, true, false);
  add(second, 33, 1, Activation::kTanh, false, false);
  const auto other = add({}, 12, 5, Activation::kSilu, true, false);
  add(other, 5, 1, Activation::kNone, true, false);
  return description;
}

struct Problem {
  explicit Problem(std::size_t batch) : random(5), description(streams()), batch(batch) {
    parameters = normal(description.parameters, 0.2f, 0);
    first = normal(batch * 9, 2, 0.5f);
    second = normal(batch * 3, 1, -1);
    for (std::size_t m = 0; m < batch; ++m) {
      x.insert(x.end(), first.begin() + static_cast<std::ptrdiff_t>(9 * m),
               first.begin() + static_cast<std::ptrdiff_t>(9 * m + 9));
      x.insert(x.end(), second.begin() + static_cast<std::ptrdiff_t>(3 * m),
               second.begin() + static_cast<std::ptrdiff_t>(3 * m + 3));
    }
    running = normal(description.statistics, 0.5f, 0);
    for (const DenseLayer& layer : description.layers) {
      for (std::size_t i = 0; layer.batch && i < layer.inputs; ++i) {
        float& variance = running[layer.batch->statistics + layer.inputs + i];
        variance = 0.1f + std::abs(variance);
      }
    }
    inputs = {first.data(), second.data()};
  }

  std::vector<float> normal(std::size_t count, float deviation, float mean) {
    std::normal_distribution<float> distribution(mean, deviation);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(random);
    return values;
  }

  std::mt19937 random;
  DenseDescription description;
  std::size_t batch;
  std::vector<float> parameters, first, second, running;
  Doubles x;
  std::vector<const void*> inputs;
};

Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

double difference(const std::vector<float>& found, const Doubles& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(found[i] - expected[i]));
  }
  return error == 0 ? 0 : error / largest;
}

// By running statistics, by the batch's, and renormalized, with limits that some columns reach.
struct Mode {
  bool measures;
  float most_scale, most_shift;
};
constexpr Mode kModes[] = {{false, 1, 0}, {true, 1, 0}, {true, 3, 5}, {true, 1.2f, 0.3f}};

TEST_CASE("batch normalization: outputs, gradients and statistics are those of a twin in doubles") {
  for (const DenseKernels* kernels : available_kernels()) {
    DenseNetwork network(streams(), *kernels);
    for (const Mode& mode : kModes) {
      for (const std::size_t batch : {4, 7, 64, 130, 5}) {  // of two rows, normalized to 1 and -1, gradients cancel
        CAPTURE(std::string(kernels->name));
        CAPTURE(batch);
        CAPTURE(mode.most_scale);
        Problem problem(batch);
        DenseTwin twin(problem.description, doubles(problem.parameters),
                       {doubles(problem.running), mode.measures, mode.most_scale, mode.most_shift});
        std::vector<float> y(batch * network.outputs()), measured(problem.running.size());
        network.forward(
            problem.parameters.data(), problem.inputs, y.data(), batch,
            {problem.running.data(), mode.measures ? measured.data() : nullptr, mode.most_scale, mode.most_shift});
        CHECK(difference(y, twin.forward(problem.x, batch)) < 1e-5);
        CHECK(difference(measured, twin.measured()) < 1e-5);

        const std::vector<float> dy = problem.normal(y.size(), 1, 0);
        const DenseTwin::Gradients expected = twin.backward(doubles(dy));
        std::vector<float> gradient(problem.parameters.size()), first(batch * 9), second(batch * 3), dx;
        const std::vector<float*> to = {first.data(), second.data()};
        network.backward(problem.parameters.data(), dy.data(), gradient.data(), to);
        CHECK(difference(gradient, expected.parameters) < 1e-5);
        for (std::size_t m = 0; m < batch; ++m) {
          for (std::size_t i = 0; i < 9; ++i) dx.push_back(first[9 * m + i]);
          for (std::size_t i = 0; i < 3; ++i) dx.push_back(second[3 * m + i]);
        }
        CHECK(difference(dx, expected.x) < 1e-5);

        std::vector<float> alone(second.size());
        const std::vector<float*> only = {nullptr, alone.data()};
        network.backward(problem.parameters.data(), dy.data(), nullptr, only);
        CHECK(alone == second);
      }
    }
  }
}

TEST_CASE("batch normalization: the twin's gradients are finite differences") {
  constexpr std::size_t kBatch = 4;
  constexpr double kStep = 1e-6;
  for (const bool measures : {false, true}) {
    Problem problem(kBatch);
    // With r = 1 and d = 0, which do not depend on the batch.
    const TwinBatch batch{doubles(problem.running), measures, 1, 0};
    const Doubles parameters = doubles(problem.parameters);
    DenseTwin twin(problem.description, parameters, batch);
    const Doubles dy = doubles(problem.normal(twin.forward(problem.x, kBatch).size(), 1, 0));
    const auto value = [&](const Doubles& theta, const Doubles& x) {
      const Doubles y = DenseTwin(problem.description, theta, batch).forward(x, kBatch);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    const DenseTwin::Gradients gradients = twin.backward(dy);
    for (int i = 0; i < 60; ++i) {
      const bool of_input = i % 2 == 0;
      const Doubles& from = of_input ? gradients.x : gradients.parameters;
      const std::size_t place = problem.random() % from.size();
      Doubles theta[2] = {parameters, parameters}, x[2] = {problem.x, problem.x};
      for (const int side : {0, 1}) (of_input ? x : theta)[side][place] += side == 0 ? kStep : -kStep;
      const double slope = (value(theta[0], x[0]) - value(theta[1], x[1])) / (2 * kStep);
      CHECK(from[place] == doctest::Approx(slope).epsilon(1e-4).scale(1));
    }
  }
}

// One column with 1 and 3: mean 2, variance 1. Running mean 0 and variance 0.25 - 1e-3: sigma is 0.5, so that without
// limits r would be about 2 and d would be 4.
TEST_CASE("batch normalization: numbers by hand") {
  DenseDescription description{{{1}}, {{1, 1, 0, 1}}, 4};
  description.layers[0].batch = BatchNormalized{2, 0};
  description.statistics = 2;
  const std::vector<float> parameters = {1, 0, 10, 7}, running = {0, 0.25f - 1e-3f}, x = {1, 3};
  const std::vector<const void*> inputs = {x.data()};
  for (const DenseKernels* kernels : available_kernels()) {
    DenseNetwork network(description, *kernels);
    const auto outputs = [&](const BatchStatistics& statistics) {
      std::vector<float> y(2);
      network.forward(parameters.data(), inputs, y.data(), 2, statistics);
      return y;
    };
    std::vector<float> measured(2);
    CHECK(outputs({running.data()})[0] == doctest::Approx(27));                                 // 10 (1 - 0) / 0.5 + 7
    CHECK(outputs({running.data(), measured.data()})[1] == doctest::Approx(17).epsilon(1e-3));  // 10 (3 - 2) / 1 + 7
    CHECK(measured == std::vector<float>{2, 1});
    // 10 ((3 - 2) 1.5 + 3) + 7: both limits are reached
    CHECK(outputs({running.data(), measured.data(), 1.5f, 3})[1] == doctest::Approx(52).epsilon(1e-3));
    // 10 ((3 - 2) 2 + 4) + 7: that of the running statistics
    CHECK(outputs({running.data(), measured.data(), 3, 5})[1] == doctest::Approx(67));
  }
}

TEST_CASE("batch normalization: without a batch the gradient is 0") {
  const Problem problem(4);
  DenseNetwork network(problem.description, *available_kernels().front());
  std::vector<float> gradient(problem.description.parameters, 1);
  network.backward(problem.parameters.data(), nullptr, gradient.data(), {});
  CHECK(std::ranges::all_of(gradient, [](float value) { return value == 0; }));
}

TEST_CASE("batch normalization: running variances below 0 count as 0") {
  DenseDescription description{{{1}}, {{1, 1, 0, 1}}, 4};
  description.layers[0].batch = BatchNormalized{2, 0};
  description.statistics = 2;
  const std::vector<float> parameters = {1, 0, 1, 0}, running = {0, -5}, x = {1};
  const std::vector<const void*> inputs = {x.data()};
  DenseNetwork network(description, *available_kernels().front());
  float y = 0;
  network.forward(parameters.data(), inputs, &y, 1, {running.data()});
  CHECK(y == doctest::Approx(std::sqrt(1000.0)));
}

TEST_CASE("batch normalization: places beyond the vectors are refused") {
  DenseDescription description = streams();
  description.check();
  description.layers[1].batch->parameters = description.parameters - 139;
  check_error(ErrorKind::kInvalid, "layer 1 has parameters beyond", [&] { description.check(); });
  description = streams();
  description.statistics -= 1;
  check_error(ErrorKind::kInvalid, "layer 5 has statistics beyond", [&] { description.check(); });
}

}  // namespace
}  // namespace headrace
