#include "dense/dense_network.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/tiny_as_zero.h"

namespace headrace {
namespace {

constexpr std::size_t kLine = 16;  // floats in a cache line
constexpr std::size_t kMostWidth = std::size_t{1} << 32;

[[noreturn]] void refuse(std::size_t layer, const std::string& problem) {
  throw Error(ErrorKind::kInvalid, "layers: layer " + std::to_string(layer) + " " + problem);
}

// Rows start at other places of a cache's sets than their neighbors: their distance is not a multiple of 256 bytes.
std::size_t padded(std::size_t columns) {
  const std::size_t stride = (columns + kLine - 1) / kLine * kLine;
  return stride % (4 * kLine) == 0 ? stride + kLine : stride;
}

std::size_t input_width(const DenseDescription& description) {
  std::size_t width = 0;
  for (const DenseInput& input : description.inputs) width += input.width;
  return width;
}

}  // namespace

void DenseDescription::check() const {
  for (const DenseInput& input : inputs) {
    if (input.width == 0 || input.width > kMostWidth) {
      throw Error(ErrorKind::kInvalid,
                  "inputs: a width of " + std::to_string(input.width) + " given, 1 to 2^32 required");
    }
  }
  const auto fits = [&](std::size_t offset, std::size_t count) {
    return count <= parameters && offset <= parameters - count;
  };
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const DenseLayer& layer = layers[l];
    if (layer.inputs == 0 || layer.outputs == 0 || layer.inputs > kMostWidth ||
        layer.outputs > kMostWidth / layer.inputs) {
      refuse(l, "is [" + std::to_string(layer.outputs) + ", " + std::to_string(layer.inputs) +
                    "]; widths above 0 and a product of at most 2^32 are required");
    }
    if (layer.source && *layer.source >= l) {
      refuse(l, "reads layer " + std::to_string(*layer.source) + "; an earlier one is required");
    }
    const std::size_t width = layer.source ? layers[*layer.source].outputs : input_width(*this);
    if (layer.inputs != width) {
      refuse(l, "has " + std::to_string(layer.inputs) + " inputs; " + std::to_string(width) + " are required");
    }
    if (!fits(layer.weight, layer.inputs * layer.outputs) || !fits(layer.bias, layer.outputs) ||
        (layer.normalization && !fits(*layer.normalization, 2 * layer.outputs))) {
      refuse(l, "has parameters beyond the " + std::to_string(parameters) + " of the network");
    }
    if (layer.batch && !fits(layer.batch->parameters, 2 * layer.inputs)) {
      refuse(l, "has parameters beyond the " + std::to_string(parameters) + " of the network");
    }
    if (layer.batch && (2 * layer.inputs > statistics || layer.batch->statistics > statistics - 2 * layer.inputs)) {
      refuse(l, "has statistics beyond the " + std::to_string(statistics) + " of the network");
    }
  }
  if (layers.empty()) throw Error(ErrorKind::kInvalid, "layers: none given, one or more required");
  const std::vector<std::size_t> last = heads();
  if (dueling && (last.size() != 2 || layers[last[0]].outputs != 1)) {
    throw Error(ErrorKind::kInvalid, "layers: " + std::to_string(last.size()) +
                                         " heads given, a value [1] and then advantages [A] required");
  }
}

std::vector<std::size_t> DenseDescription::heads() const {
  std::vector<bool> read(layers.size());
  for (const DenseLayer& layer : layers) {
    if (layer.source) read[*layer.source] = true;
  }
  std::vector<std::size_t> unread;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (!read[l]) unread.push_back(l);
  }
  return unread;
}

DenseNetwork::DenseNetwork(DenseDescription description, const DenseKernels& kernels)
    : description_((description.check(), std::move(description))), kernels_(kernels), heads_(description_.heads()) {
  input_.stride = padded(input_width(description_));
  last_readers_.assign(description_.layers.size(), description_.layers.size());
  for (std::size_t l = 0; l < description_.layers.size(); ++l) {
    const DenseLayer& layer = description_.layers[l];
    places_.push_back({.stride = padded(layer.outputs)});
    if (layer.source) last_readers_[*layer.source] = std::min(last_readers_[*layer.source], l);
  }
  for (const std::size_t head : heads_) {
    outputs_ = (description_.dueling ? 0 : outputs_) + description_.layers[head].outputs;
  }
}

void DenseNetwork::reserve(std::size_t batch) {
  if (batch > capacity_) {
    const std::size_t column = (batch + kLine - 1) / kLine * kLine;
    std::size_t count = batch * input_.stride;
    for (std::size_t l = 0; l < places_.size(); ++l) {
      const DenseLayer& layer = description_.layers[l];
      const bool has_slopes = layer.activation == Activation::kSilu, normalizes = layer.normalization.has_value();
      count += batch * places_[l].stride * (2 + has_slopes + normalizes) + (normalizes ? column : 0);
      if (layer.batch) count += BatchNormalization::floats(source(l).stride, batch);
    }
    capacity_ = batch_ = 0;  // if there is no memory for more
    float* next = memory_.emplace(count).data();
    input_.outputs = std::exchange(next, next + batch * input_.stride);
    for (std::size_t l = 0; l < places_.size(); ++l) place(l, next, batch);
    capacity_ = batch;
  }
  batch_ = batch;
}

// Takes a layer's memory from `next` on.
void DenseNetwork::place(std::size_t l, float*& next, std::size_t batch) {
  const DenseLayer& layer = description_.layers[l];
  Place& place = places_[l];
  const auto take = [&](std::size_t size) { return std::exchange(next, next + size); };
  place.outputs = take(batch * place.stride);
  place.gradient = take(batch * place.stride);
  if (layer.activation == Activation::kSilu) place.slopes = take(batch * place.stride);
  if (layer.normalization) {
    place.normalized = take(batch * place.stride);
    place.scale = take((batch + kLine - 1) / kLine * kLine);
  }
  if (layer.batch) {
    const std::size_t stride = source(l).stride;
    place.batch.place(take(BatchNormalization::floats(stride, batch)), layer.inputs, stride, batch);
  }
}

Rows DenseNetwork::rows(float* values, std::size_t columns, const Place& place) const {
  return {values, batch_, columns, place.stride};
}

const DenseNetwork::Place& DenseNetwork::source(std::size_t layer) const {
  const auto& from = description_.layers[layer].source;
  return from ? places_[*from] : input_;
}

Rows DenseNetwork::source_rows(std::size_t layer) const {
  const Place& from = source(layer);
  return rows(from.outputs, description_.layers[layer].inputs, from);
}

const float* DenseNetwork::layer_input(std::size_t layer) const {
  return description_.layers[layer].batch ? places_[layer].batch.outputs() : source(layer).outputs;
}

Normalization DenseNetwork::normalization(const float* parameters, std::size_t layer) const {
  const DenseLayer& described = description_.layers[layer];
  const float* gain = parameters + *described.normalization;
  return {gain, gain + described.outputs, places_[layer].normalized, places_[layer].scale};
}

void DenseNetwork::read_inputs(std::span<const void* const> x) {
  constexpr float kByte = 1.0f / 255;
  float* to = input_.outputs;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto [width, bytes] = description_.inputs[i];
    for (std::size_t m = 0; m < batch_; ++m) {
      float* row = to + m * input_.stride;
      if (bytes) {
        const auto* from = static_cast<const std::uint8_t*>(x[i]) + m * width;
        for (std::size_t n = 0; n < width; ++n) row[n] = static_cast<float>(from[n]) * kByte;
      } else {
        std::memcpy(row, static_cast<const float*>(x[i]) + m * width, width * sizeof(float));
      }
    }
    to += width;
  }
}

void DenseNetwork::forward(const float* parameters, std::span<const void* const> x, float* y, std::size_t batch,
                           const BatchStatistics& statistics) {
  const TinyAsZero tiny_as_zero;
  reserve(batch);
  read_inputs(x);
  for (std::size_t l = 0; l < places_.size(); ++l) {
    const DenseLayer& layer = description_.layers[l];
    const Place& from = source(l);
    Place& to = places_[l];
    if (layer.batch) {
      to.batch.forward(kernels_, parameters + layer.batch->parameters, statistics, layer.batch->statistics,
                       source_rows(l));
    }
    const bool rectifies = layer.activation == Activation::kRelu && !layer.normalization;
    kernels_.product({.rows = batch,
                      .columns = layer.outputs,
                      .depth = layer.inputs,
                      .a = layer_input(l),
                      .a_row = from.stride,
                      .a_depth = 1,
                      .b = parameters + layer.weight,
                      .b_stride = layer.by_input ? layer.outputs : layer.inputs,
                      .transposed = !layer.by_input,
                      .c = to.outputs,
                      .c_row = to.stride,
                      .finish = rectifies ? Finish::kBiasRelu : Finish::kBias,
                      .extra = parameters + layer.bias});
    const Rows values = rows(to.outputs, layer.outputs, to);
    if (layer.normalization) kernels_.normalize(normalization(parameters, l), values);
    if (!rectifies) kernels_.activate(layer.activation, values, to.slopes);
  }
  combine_heads(y);
}

void DenseNetwork::combine_heads(float* y) {
  if (!description_.dueling) {
    for (const std::size_t head : heads_) {
      const std::size_t width = description_.layers[head].outputs;
      for (std::size_t m = 0; m < batch_; ++m) {
        std::memcpy(y + m * outputs_, places_[head].outputs + m * places_[head].stride, width * sizeof(float));
      }
      y += width;
    }
    return;
  }
  const Place &value = places_[heads_[0]], &advantage = places_[heads_[1]];
  for (std::size_t m = 0; m < batch_; ++m) {
    const float* a = advantage.outputs + m * advantage.stride;
    float mean = 0;
    for (std::size_t n = 0; n < outputs_; ++n) mean += a[n];
    mean /= static_cast<float>(outputs_);
    const float center = value.outputs[m * value.stride] - mean;
    for (std::size_t n = 0; n < outputs_; ++n) y[m * outputs_ + n] = center + a[n];
  }
}

// The gradient by the output to those by the heads' outputs. By the value of a dueling network it is the sum over
// actions, and by the advantages their gradients less the mean.
void DenseNetwork::split_gradient(const float* dy) {
  for (Place& place : places_) place.has_gradient = place.rectified = false;
  if (!description_.dueling) {
    for (const std::size_t head : heads_) {
      const std::size_t width = description_.layers[head].outputs;
      for (std::size_t m = 0; m < batch_; ++m) {
        std::memcpy(places_[head].gradient + m * places_[head].stride, dy + m * outputs_, width * sizeof(float));
      }
      dy += width;
    }
    return;
  }
  const Place &value = places_[heads_[0]], &advantage = places_[heads_[1]];
  for (std::size_t m = 0; m < batch_; ++m, dy += outputs_) {
    float sum = 0;
    for (std::size_t n = 0; n < outputs_; ++n) sum += dy[n];
    value.gradient[m * value.stride] = sum;
    const float mean = sum / static_cast<float>(outputs_);
    for (std::size_t n = 0; n < outputs_; ++n) advantage.gradient[m * advantage.stride + n] = dy[n] - mean;
  }
}

void DenseNetwork::backward(const float* parameters, const float* dy, float* gradient, std::span<float* const> dx) {
  const TinyAsZero tiny_as_zero;
  const bool to_inputs = std::ranges::any_of(dx, [](const float* each) { return each != nullptr; });
  split_gradient(dy);
  bool inputs_have_gradient = false;
  for (std::size_t l = places_.size(); l-- > 0;) {
    derive_functions(parameters, gradient, l);
    if (gradient != nullptr) derive_parameters(gradient, l);
    if (description_.layers[l].batch) derive_batch(parameters, gradient, l);
    if (description_.layers[l].source) {
      derive_source(parameters, l);
    } else if (to_inputs) {
      derive_inputs(parameters, dx, l, inputs_have_gradient);
      inputs_have_gradient = true;
    }
  }
}

// The gradient by the layer's outputs to that by the sums that go into its functions.
void DenseNetwork::derive_functions(const float* parameters, float* gradient, std::size_t l) {
  const DenseLayer& layer = description_.layers[l];
  const Place& place = places_[l];
  const Rows change = rows(place.gradient, layer.outputs, place);
  const float* kept = layer.activation == Activation::kSilu ? place.slopes : place.outputs;
  if (!place.rectified) kernels_.derive(layer.activation, change, kept);
  if (!layer.normalization) return;
  float* gain = gradient == nullptr ? nullptr : gradient + *layer.normalization;
  float* shift = gradient == nullptr ? nullptr : gain + layer.outputs;
  kernels_.derive_normalization(normalization(parameters, l), change, gain, shift);
}

void DenseNetwork::derive_parameters(float* gradient, std::size_t l) {
  const DenseLayer& layer = description_.layers[l];
  const Place &from = source(l), &place = places_[l];
  const Place &rows_of = layer.by_input ? from : place, &columns_of = layer.by_input ? place : from;
  const float* a = layer.by_input ? layer_input(l) : place.gradient;
  const float* b = layer.by_input ? place.gradient : layer_input(l);
  const std::size_t columns = layer.by_input ? layer.outputs : layer.inputs;
  if (batch_ > 0) {
    kernels_.product({.rows = layer.by_input ? layer.inputs : layer.outputs,
                      .columns = columns,
                      .depth = batch_,
                      .a = a,
                      .a_row = 1,
                      .a_depth = rows_of.stride,
                      .b = b,
                      .b_stride = columns_of.stride,
                      .transposed = false,
                      .c = gradient + layer.weight,
                      .c_row = columns});
  } else {
    std::fill_n(gradient + layer.weight, layer.inputs * layer.outputs, 0.0f);
  }
  kernels_.sum_rows(rows(place.gradient, layer.outputs, place), gradient + layer.bias);
}

// The gradient by the layer's input, back through its batch normalization.
void DenseNetwork::derive_batch(const float* parameters, float* gradient, std::size_t l) {
  const DenseLayer& layer = description_.layers[l];
  Place& place = places_[l];
  const std::size_t offset = layer.batch->parameters;
  if (batch_ == 0) {
    if (gradient != nullptr) std::fill_n(gradient + offset, 2 * layer.inputs, 0.0f);
    return;
  }
  kernels_.product({.rows = batch_,
                    .columns = layer.inputs,
                    .depth = layer.outputs,
                    .a = place.gradient,
                    .a_row = place.stride,
                    .a_depth = 1,
                    .b = parameters + layer.weight,
                    .b_stride = layer.by_input ? layer.outputs : layer.inputs,
                    .transposed = layer.by_input,
                    .c = place.batch.gradient(),
                    .c_row = source(l).stride});
  place.batch.backward(kernels_, parameters + offset, gradient == nullptr ? nullptr : gradient + offset,
                       source_rows(l));
}

// The layer's part of the gradient by the outputs of the layer that it reads.
void DenseNetwork::derive_source(const float* parameters, std::size_t l) {
  const DenseLayer& layer = description_.layers[l];
  const Place& place = places_[l];
  Place& to = places_[*layer.source];
  if (layer.batch) {
    place.batch.derive(kernels_, source_rows(l), 0, rows(to.gradient, layer.inputs, to), to.has_gradient);
    to.has_gradient = true;
    return;
  }
  to.rectified =
      last_readers_[*layer.source] == l && description_.layers[*layer.source].activation == Activation::kRelu;
  kernels_.product({.rows = batch_,
                    .columns = layer.inputs,
                    .depth = layer.outputs,
                    .a = place.gradient,
                    .a_row = place.stride,
                    .a_depth = 1,
                    .b = parameters + layer.weight,
                    .b_stride = layer.by_input ? layer.outputs : layer.inputs,
                    .transposed = layer.by_input,
                    .c = to.gradient,
                    .c_row = to.stride,
                    .finish = to.rectified ? Finish::kRectified : Finish::kNothing,
                    .extra = to.rectified ? to.outputs : nullptr,
                    .extra_row = to.stride,
                    .add = to.has_gradient});
  to.has_gradient = true;
}

// The layer's part of the gradients by the inputs, of which each uses some of the weight's columns.
void DenseNetwork::derive_inputs(const float* parameters, std::span<float* const> dx, std::size_t l, bool add) {
  const DenseLayer& layer = description_.layers[l];
  const Place& place = places_[l];
  const float* weight = parameters + layer.weight;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < dx.size(); begin += description_.inputs[i].width, ++i) {
    const std::size_t width = description_.inputs[i].width;
    if (dx[i] != nullptr && layer.batch) {
      place.batch.derive(kernels_, source_rows(l), begin, {dx[i], batch_, width, width}, add);
    } else if (dx[i] != nullptr) {
      kernels_.product({.rows = batch_,
                        .columns = width,
                        .depth = layer.outputs,
                        .a = place.gradient,
                        .a_row = place.stride,
                        .a_depth = 1,
                        .b = weight,
                        .b_stride = layer.by_input ? layer.outputs : layer.inputs,
                        .transposed = layer.by_input,
                        .c = dx[i],
                        .c_row = width,
                        .add = add});
    }
    weight += layer.by_input ? width * layer.outputs : width;
  }
}

}  // namespace headrace
