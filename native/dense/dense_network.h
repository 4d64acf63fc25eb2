// A network of dense layers: outputs for inputs, and gradients, for parameters in one flat vector that it only reads.
//
// Threading: one thread at a time for each object. The parameters may change between two calls, and others may write
// them during a call (HogWild): no call keeps any of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/huge_array.h"
#include "dense/batch_normalization.h"
#include "dense/dense_kernels.h"

namespace headrace {

// One of the arrays that together, side by side, are the network's input: `width` floats of each row, or bytes, which
// are scaled by 1/255.
struct DenseInput {
  std::size_t width;
  bool bytes = false;
};

// Where a layer's batch normalization has its gain [inputs] and, after it, its shift [inputs] in the vector of
// parameters, and its mean [inputs] and, after it, its variance [inputs] in that of statistics.
struct BatchNormalized {
  std::size_t parameters, statistics;
};

// activation(normalization(weight x + bias)), where x may be batch-normalized first. Offsets are places in the vector
// of parameters.
struct DenseLayer {
  std::size_t inputs, outputs;
  std::size_t weight;  // offset of [outputs, inputs], or with `by_input` of [inputs, outputs]
  std::size_t bias;    // offset of [outputs]
  Activation activation = Activation::kNone;
  std::optional<std::size_t> normalization = {};  // offset of the gain [outputs] and, after it, the shift [outputs]
  std::optional<std::size_t> source = {};         // the layer whose outputs it reads; none: the network's input
  bool by_input = false;
  std::optional<BatchNormalized> batch = {};
};

struct DenseDescription {
  std::vector<DenseInput> inputs;
  std::vector<DenseLayer> layers;  // each after its source; their parameters do not overlap
  std::size_t parameters = 0;      // P: length of the vector, of which the layers may use a part
  bool dueling = false;            // the output is value + advantage - mean(advantage) of two heads [1] and [A]
                                   // (Wang et al. 2016, equation 9)
  std::size_t statistics = 0;      // S: length of the vector of batch normalization's statistics

  void check() const;  // throws kInvalid
  // The layers whose outputs no layer reads. Without `dueling` the output is that of all heads, side by side.
  std::vector<std::size_t> heads() const;
};

class DenseNetwork {
 public:
  explicit DenseNetwork(DenseDescription description, const DenseKernels& kernels);  // throws kInvalid
  DenseNetwork(const DenseNetwork&) = delete;
  DenseNetwork& operator=(const DenseNetwork&) = delete;

  const DenseDescription& description() const { return description_; }
  const char* instructions() const { return kernels_.name; }
  std::size_t outputs() const { return outputs_; }
  std::size_t batch() const { return batch_; }  // B of the last forward()

  // y [B, outputs] of parameters [P] and x: one array [B, width] of floats or bytes for each input. `statistics` is not
  // used unless a layer is batch-normalized. Throws kSystem.
  void forward(const float* parameters, std::span<const void* const> x, float* y, std::size_t batch,
               const BatchStatistics& statistics = {});

  // Gradients of sum(dy y) of the last forward(), for dy [B, outputs]: those by the layers' parameters in `gradient`
  // [P], of which the rest is not written, and those by each input in dx [B, width]. A null pointer leaves one out. The
  // last forward() must have had these parameters, up to what others wrote in between.
  void backward(const float* parameters, const float* dy, float* gradient, std::span<float* const> dx);

 private:
  // The values of one layer for the rows of a batch.
  struct Place {
    std::size_t stride = 0;       // distance of two rows, in floats
    float* outputs = nullptr;     // [capacity, stride]
    float* gradient = nullptr;    // [capacity, stride]: by the outputs, then by what goes into the layer's functions
    float* slopes = nullptr;      // [capacity, stride]: of a SiLU
    float* normalized = nullptr;  // [capacity, stride] and [capacity]: see Normalization
    float* scale = nullptr;
    BatchNormalization batch;   // of the layer's input
    bool has_gradient = false;  // a reader has written its part of the gradient
    bool rectified = false;     // the last reader has already taken the gradient back through the ReLU
  };

  void reserve(std::size_t batch);
  void place(std::size_t layer, float*& next, std::size_t batch);
  void read_inputs(std::span<const void* const> x);
  void combine_heads(float* y);
  void split_gradient(const float* dy);
  void derive_functions(const float* parameters, float* gradient, std::size_t layer);
  void derive_parameters(float* gradient, std::size_t layer);
  void derive_batch(const float* parameters, float* gradient, std::size_t layer);
  void derive_source(const float* parameters, std::size_t layer);
  void derive_inputs(const float* parameters, std::span<float* const> dx, std::size_t layer, bool add);

  Rows rows(float* values, std::size_t columns, const Place& place) const;
  const Place& source(std::size_t layer) const;
  Rows source_rows(std::size_t layer) const;
  const float* layer_input(std::size_t layer) const;  // [batch, stride of the source]
  Normalization normalization(const float* parameters, std::size_t layer) const;

  const DenseDescription description_;
  const DenseKernels& kernels_;
  const std::vector<std::size_t> heads_;
  std::size_t outputs_ = 0, batch_ = 0, capacity_ = 0;
  Place input_;  // its outputs are the input
  std::vector<Place> places_;
  std::vector<std::size_t> last_readers_;  // of each layer: the first in order, which is the last in backward()
  std::optional<HugeArray<float>> memory_;
};

}  // namespace headrace
