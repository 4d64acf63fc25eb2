// What DenseNetwork computes, in naive loops over doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dense/dense_network.h"

namespace headrace::fixtures {

using Doubles = std::vector<double>;

class DenseTwin {
 public:
  DenseTwin(const DenseDescription& description, Doubles parameters)
      : description_(description), parameters_(std::move(parameters)), heads_(description.heads()) {}

  // y [B, outputs] for x [B, inputs], bytes already scaled.
  Doubles forward(const Doubles& x, std::size_t batch) {
    batch_ = batch;
    x_ = x;
    sums_.clear();
    outputs_.clear();
    normalized_.clear();
    scales_.clear();
    for (const DenseLayer& layer : description_.layers) {
      const Doubles& in = layer.source ? outputs_[*layer.source] : x_;
      Doubles z(batch * layer.outputs), normalized = z, scales(batch);
      for (std::size_t m = 0; m < batch; ++m) {
        for (std::size_t o = 0; o < layer.outputs; ++o) {
          double& sum = z[m * layer.outputs + o] = parameters_[layer.bias + o];
          for (std::size_t i = 0; i < layer.inputs; ++i) sum += weight(layer, o, i) * in[m * layer.inputs + i];
        }
        if (layer.normalization) scales[m] = normalize(layer, &z[m * layer.outputs], &normalized[m * layer.outputs]);
      }
      Doubles y = z;
      for (double& value : y) value = activate(layer.activation, value);
      sums_.push_back(std::move(z));
      outputs_.push_back(std::move(y));
      normalized_.push_back(std::move(normalized));
      scales_.push_back(std::move(scales));
    }
    Doubles y;
    for (std::size_t m = 0; m < batch; ++m) {
      if (description_.dueling) {
        const std::size_t actions = description_.layers[heads_[1]].outputs;
        double mean = 0;
        for (std::size_t a = 0; a < actions; ++a) mean += outputs_[heads_[1]][m * actions + a] / actions;
        for (std::size_t a = 0; a < actions; ++a) {
          y.push_back(outputs_[heads_[0]][m] + outputs_[heads_[1]][m * actions + a] - mean);
        }
        continue;
      }
      for (const std::size_t head : heads_) {
        const std::size_t width = description_.layers[head].outputs;
        const double* from = &outputs_[head][m * width];
        y.insert(y.end(), from, from + width);
      }
    }
    return y;
  }

  struct Gradients {
    Doubles parameters, x;
  };

  Gradients backward(const Doubles& dy) {
    const std::size_t width = dy.size() / batch_;
    std::vector<Doubles> change;
    for (const Doubles& y : outputs_) change.emplace_back(y.size());
    for (std::size_t m = 0; m < batch_; ++m) {
      const double* from = &dy[m * width];
      if (description_.dueling) {
        double sum = 0;
        for (std::size_t a = 0; a < width; ++a) sum += from[a];
        change[heads_[0]][m] = sum;
        for (std::size_t a = 0; a < width; ++a) change[heads_[1]][m * width + a] = from[a] - sum / width;
        continue;
      }
      for (const std::size_t head : heads_) {
        const std::size_t outputs = description_.layers[head].outputs;
        for (std::size_t o = 0; o < outputs; ++o) change[head][m * outputs + o] = *from++;
      }
    }
    Gradients result{Doubles(parameters_.size()), Doubles(x_.size())};
    for (std::size_t l = outputs_.size(); l-- > 0;) {
      const DenseLayer& layer = description_.layers[l];
      const Doubles& in = layer.source ? outputs_[*layer.source] : x_;
      Doubles& before = layer.source ? change[*layer.source] : result.x;
      for (std::size_t m = 0; m < batch_; ++m) {
        double* d = &change[l][m * layer.outputs];
        for (std::size_t o = 0; o < layer.outputs; ++o) {
          d[o] *= slope(layer.activation, sums_[l][m * layer.outputs + o]);
        }
        if (layer.normalization) {
          derive_normalization(layer, d, &normalized_[l][m * layer.outputs], scales_[l][m], result.parameters);
        }
        for (std::size_t o = 0; o < layer.outputs; ++o) {
          result.parameters[layer.bias + o] += d[o];
          for (std::size_t i = 0; i < layer.inputs; ++i) {
            result.parameters[place(layer, o, i)] += d[o] * in[m * layer.inputs + i];
            before[m * layer.inputs + i] += d[o] * weight(layer, o, i);
          }
        }
      }
    }
    return result;
  }

 private:
  static std::size_t place(const DenseLayer& layer, std::size_t o, std::size_t i) {
    return layer.weight + (layer.by_input ? i * layer.outputs + o : o * layer.inputs + i);
  }
  double weight(const DenseLayer& layer, std::size_t o, std::size_t i) const { return parameters_[place(layer, o, i)]; }

  static double activate(Activation f, double z) {
    if (f == Activation::kRelu) return std::max(z, 0.0);
    if (f == Activation::kTanh) return std::tanh(z);
    if (f == Activation::kSilu) return z / (1 + std::exp(-z));
    return f == Activation::kElu && z < 0 ? std::expm1(z) : z;
  }

  static double slope(Activation f, double z) {
    if (f == Activation::kRelu) return z > 0 ? 1 : 0;
    if (f == Activation::kTanh) return 1 - std::tanh(z) * std::tanh(z);
    if (f == Activation::kSilu) return (1 + z / (1 + std::exp(z))) / (1 + std::exp(-z));
    return f == Activation::kElu && z < 0 ? std::exp(z) : 1;
  }

  double normalize(const DenseLayer& layer, double* z, double* normalized) const {
    const std::size_t n = layer.outputs;
    double mean = 0, variance = 0;
    for (std::size_t o = 0; o < n; ++o) mean += z[o] / n;
    for (std::size_t o = 0; o < n; ++o) variance += (z[o] - mean) * (z[o] - mean) / n;
    const double scale = 1 / std::sqrt(variance + 1e-5);
    for (std::size_t o = 0; o < n; ++o) {
      normalized[o] = (z[o] - mean) * scale;
      z[o] = parameters_[*layer.normalization + o] * normalized[o] + parameters_[*layer.normalization + n + o];
    }
    return scale;
  }

  // By the definition: dz_i = sum_o gain_o d_o dz'_o/dz_i, with dz'_o/dz_i = scale ((o == i) - 1/n - z'_o z'_i / n).
  void derive_normalization(const DenseLayer& layer, double* d, const double* normalized, double scale,
                            Doubles& gradient) const {
    const std::size_t n = layer.outputs, gain = *layer.normalization;
    Doubles before(n);
    for (std::size_t o = 0; o < n; ++o) {
      gradient[gain + o] += d[o] * normalized[o];
      gradient[gain + n + o] += d[o];
      for (std::size_t i = 0; i < n; ++i) {
        before[i] += parameters_[gain + o] * d[o] * scale * ((o == i) - (1 + normalized[o] * normalized[i]) / n);
      }
    }
    std::ranges::copy(before, d);
  }

  const DenseDescription description_;
  const Doubles parameters_;
  const std::vector<std::size_t> heads_;
  std::size_t batch_ = 0;
  Doubles x_;
  std::vector<Doubles> sums_, outputs_, normalized_, scales_;  // sums: what goes into the activation
};

}  // namespace headrace::fixtures
