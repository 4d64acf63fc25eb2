// What DenseNetwork computes, in naive loops over doubles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "dense/dense_network.h"

namespace headrace::fixtures {

using Doubles = std::vector<double>;

// How batch normalization computes; see BatchStatistics.
struct TwinBatch {
  Doubles running;
  bool measures = false;
  double most_scale = 1, most_shift = 0;
};

class DenseTwin {
 public:
  DenseTwin(const DenseDescription& description, Doubles parameters, TwinBatch batch = {})
      : description_(description),
        parameters_(std::move(parameters)),
        heads_(description.heads()),
        normalizing_(std::move(batch)),
        measured_(description.statistics) {}

  // y [B, outputs] for x [B, inputs], bytes already scaled.
  Doubles forward(const Doubles& x, std::size_t batch) {
    batch_ = batch;
    x_ = x;
    sums_.clear();
    outputs_.clear();
    normalized_.clear();
    scales_.clear();
    columns_.clear();
    inputs_.clear();
    for (const DenseLayer& layer : description_.layers) {
      inputs_.push_back(layer.source ? outputs_[*layer.source] : x_);
      columns_.push_back(layer.batch ? normalize_columns(layer, inputs_.back()) : Columns{});
      const Doubles& in = inputs_.back();
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

  const Doubles& measured() const { return measured_; }

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
      const Doubles& in = inputs_[l];
      Doubles& to = layer.source ? change[*layer.source] : result.x;
      Doubles before(to.size());
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
      if (layer.batch) derive_columns(layer, columns_[l], before, result.parameters);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += before[i];
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

  // Of each column: z = (x - center) slope + offset for every row, and 1 / sigma of the batch.
  struct Columns {
    Doubles z, slope, offset, inverse;
  };

  // x to gain z + shift.
  Columns normalize_columns(const DenseLayer& layer, Doubles& x) {
    const std::size_t n = layer.inputs, at = layer.batch->statistics, gain = layer.batch->parameters;
    Columns columns{Doubles(x.size()), {}, {}, {}};
    for (std::size_t i = 0; i < n; ++i) {
      const double running_mean = normalizing_.running[at + i];
      const double running_sigma = std::sqrt(std::max(normalizing_.running[at + n + i], 0.0) + 1e-3);
      double center = running_mean, slope = 1 / running_sigma, offset = 0, inverse = 0;
      if (normalizing_.measures) {
        double mean = 0, variance = 0;
        for (std::size_t m = 0; m < batch_; ++m) mean += x[m * n + i] / batch_;
        for (std::size_t m = 0; m < batch_; ++m) variance += (x[m * n + i] - mean) * (x[m * n + i] - mean) / batch_;
        measured_[at + i] = mean;
        measured_[at + n + i] = variance;
        const double sigma = std::sqrt(variance + 1e-3);
        inverse = 1 / sigma;
        center = mean;
        slope = std::clamp(sigma / running_sigma, 1 / normalizing_.most_scale, normalizing_.most_scale) / sigma;
        offset = std::clamp((mean - running_mean) / running_sigma, -normalizing_.most_shift, normalizing_.most_shift);
      }
      columns.slope.push_back(slope);
      columns.offset.push_back(offset);
      columns.inverse.push_back(inverse);
      for (std::size_t m = 0; m < batch_; ++m) {
        double& value = x[m * n + i];
        const double z = columns.z[m * n + i] = (value - center) * slope + offset;
        value = parameters_[gain + i] * z + parameters_[gain + n + i];
      }
    }
    return columns;
  }

  // By the definition: with h = (x - mean) / sigma of the batch, dh_k/dx_m = ((k == m) - (1 + h_k h_m) / B) / sigma.
  void derive_columns(const DenseLayer& layer, const Columns& columns, Doubles& d, Doubles& gradient) const {
    const std::size_t n = layer.inputs, gain = layer.batch->parameters;
    for (std::size_t i = 0; i < n; ++i) {
      Doubles before(batch_);
      for (std::size_t k = 0; k < batch_; ++k) {
        const double by_z = d[k * n + i], z = columns.z[k * n + i];
        gradient[gain + i] += by_z * z;
        gradient[gain + n + i] += by_z;
        const double by_x = by_z * parameters_[gain + i] * columns.slope[i];
        for (std::size_t m = 0; m < batch_; ++m) {
          double part = k == m;
          if (normalizing_.measures) {
            const double unit = columns.inverse[i] / columns.slope[i];
            const double ours = (z - columns.offset[i]) * unit;
            const double theirs = (columns.z[m * n + i] - columns.offset[i]) * unit;
            part -= (1 + ours * theirs) / batch_;
          }
          before[m] += by_x * part;
        }
      }
      for (std::size_t m = 0; m < batch_; ++m) d[m * n + i] = before[m];
    }
  }

  const DenseDescription description_;
  const Doubles parameters_;
  const std::vector<std::size_t> heads_;
  const TwinBatch normalizing_;
  std::size_t batch_ = 0;
  Doubles x_;
  std::vector<Doubles> sums_, outputs_, normalized_, scales_;  // sums: what goes into the activation
  std::vector<Columns> columns_;
  std::vector<Doubles> inputs_;  // of each layer, after its batch normalization
  Doubles measured_;             // statistics of the last batch
};

}  // namespace headrace::fixtures
