#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/python_lock.h"
#include "core/error.h"
#include "dense/dense_network.h"
#include "dense/instructions.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

const Field kReal{"float32", {}}, kByte{"uint8", {}};

constexpr std::array<std::pair<std::string_view, Activation>, 5> kActivations = {{{"none", Activation::kNone},
                                                                                  {"relu", Activation::kRelu},
                                                                                  {"tanh", Activation::kTanh},
                                                                                  {"elu", Activation::kElu},
                                                                                  {"silu", Activation::kSilu}}};

Activation activation_of(std::string_view name) {
  for (const auto& [known, activation] : kActivations) {
    if (known == name) return activation;
  }
  throw Error(ErrorKind::kInvalid, "activation is \"" + std::string(name.substr(0, 200)) +
                                       "\", but it must be none, relu, tanh, elu or silu");
}

void make_layer(DenseLayer* self, std::size_t inputs, std::size_t outputs, std::size_t weight, std::size_t bias,
                std::string_view activation, std::optional<std::size_t> normalization,
                std::optional<std::size_t> source, bool by_input,
                std::optional<std::pair<std::size_t, std::size_t>> batch) {
  new (self) DenseLayer{inputs, outputs, weight, bias, activation_of(activation), normalization, source, by_input};
  if (batch) self->batch = BatchNormalized{batch->first, batch->second};
}

void make_network(DenseNetwork* self, const std::vector<std::pair<std::size_t, bool>>& inputs,
                  std::vector<DenseLayer> layers, std::size_t parameters, bool dueling, std::string_view instructions,
                  std::size_t statistics) {
  DenseDescription description{{}, std::move(layers), parameters, dueling, statistics};
  for (const auto& [width, bytes] : inputs) description.inputs.push_back({width, bytes});
  new (self) DenseNetwork(std::move(description), find_kernels(instructions));
}

// Arrays [B, width], one for each of the network's inputs; `None` is left out where `Access` is to write.
class InputArrays {
 public:
  InputArrays(const DenseNetwork& network, nb::tuple arrays, const char* name, std::size_t batch, Access access) {
    const auto& inputs = network.description().inputs;
    if (arrays.size() != inputs.size()) {
      throw Error(ErrorKind::kInvalid, std::string(name) + ": " + std::to_string(arrays.size()) + " arrays given, " +
                                           std::to_string(inputs.size()) + " required");
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (access == Access::kWrite && arrays[i].is_none()) {
        data_.push_back(nullptr);
        continue;
      }
      const Field& field = inputs[i].bytes && access == Access::kRead ? kByte : kReal;
      const ArrayType type(name + ("[" + std::to_string(i) + "]"), field, {batch, inputs[i].width});
      data_.push_back(buffers_.emplace_back(nb::object(arrays[i]).ptr(), type, access).data());
    }
  }

  template <typename T>
  std::vector<T*> pointers() const {
    std::vector<T*> typed;
    for (std::byte* data : data_) typed.push_back(static_cast<T*>(static_cast<void*>(data)));
    return typed;
  }

 private:
  std::deque<Buffer> buffers_;
  std::vector<std::byte*> data_;
};

// Arrays [S] of a network with batch normalization: the running statistics and, if the batch's normalize, those.
class StatisticsArrays {
 public:
  StatisticsArrays(const DenseNetwork& network, nb::handle running, nb::handle measured,
                   std::pair<float, float> limits) {
    const std::size_t count = network.description().statistics;
    if (count == 0 && running.is_none() && measured.is_none()) return;
    const auto [most_scale, most_shift] = limits;
    if (!(most_scale >= 1 && most_shift >= 0)) {
      throw Error(ErrorKind::kInvalid, "limits: (" + std::to_string(most_scale) + ", " + std::to_string(most_shift) +
                                           ") given, 1 or more and 0 or more required");
    }
    running_.emplace(running.ptr(), ArrayType("statistics", kReal, {count}), Access::kRead);
    if (!measured.is_none()) measured_.emplace(measured.ptr(), ArrayType("measured", kReal, {count}), Access::kWrite);
    statistics_ = {running_->as<float>().data(), measured_ ? reinterpret_cast<float*>(measured_->data()) : nullptr,
                   most_scale, most_shift};
  }

  const BatchStatistics& get() const { return statistics_; }

 private:
  std::optional<Buffer> running_, measured_;
  BatchStatistics statistics_;
};

void forward(DenseNetwork& network, nb::handle parameters, nb::tuple x, nb::handle y, nb::handle statistics,
             nb::handle measured, std::pair<float, float> limits) {
  const Py_ssize_t length = PyObject_Length(y.ptr());
  if (length < 0) throw nb::python_error();
  const auto batch = static_cast<std::size_t>(length);
  const Buffer theta(parameters.ptr(), ArrayType("parameters", kReal, {network.description().parameters}),
                     Access::kRead);
  const InputArrays inputs(network, x, "x", batch, Access::kRead);
  const Buffer outputs(y.ptr(), ArrayType("y", kReal, {batch, network.outputs()}), Access::kWrite);
  const auto pointers = inputs.pointers<const void>();
  const StatisticsArrays arrays(network, statistics, measured, limits);
  const Released release;
  network.forward(theta.as<float>().data(), pointers, reinterpret_cast<float*>(outputs.data()), batch, arrays.get());
}

void backward(DenseNetwork& network, nb::handle parameters, nb::handle dy, nb::handle gradient,
              std::optional<nb::tuple> dx) {
  const std::size_t count = network.description().parameters, batch = network.batch();
  const Buffer theta(parameters.ptr(), ArrayType("parameters", kReal, {count}), Access::kRead);
  const Buffer change(dy.ptr(), ArrayType("dy", kReal, {batch, network.outputs()}), Access::kRead);
  std::optional<Buffer> by_parameters;
  if (!gradient.is_none()) by_parameters.emplace(gradient.ptr(), ArrayType("gradient", kReal, {count}), Access::kWrite);
  std::optional<InputArrays> by_inputs;
  std::vector<float*> pointers;
  if (dx) pointers = by_inputs.emplace(network, *dx, "dx", batch, Access::kWrite).pointers<float>();
  float* const written = by_parameters ? reinterpret_cast<float*>(by_parameters->data()) : nullptr;
  const Released release;
  network.backward(theta.as<float>().data(), change.as<float>().data(), written, pointers);
}

// Rows and columns of an array.
std::pair<std::size_t, std::size_t> shape_of(nb::handle array, const char* name) {
  const nb::object shape = nb::getattr(array, "shape", nb::none());
  if (!nb::isinstance<nb::tuple>(shape) || nb::len(shape) != 2) {
    throw Error(ErrorKind::kInvalid, std::string(name) + ": an array of two axes is required");
  }
  return {nb::cast<std::size_t>(shape[0]), nb::cast<std::size_t>(shape[1])};
}

float* writable(const Buffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

void softmax(nb::handle logits, nb::handle probability, nb::handle log_probability, std::string_view instructions) {
  const auto [rows, columns] = shape_of(logits, "logits");
  const Buffer z(logits.ptr(), ArrayType("logits", kReal, {rows, columns}), Access::kRead);
  const Buffer p(probability.ptr(), ArrayType("probability", kReal, {rows, columns}), Access::kWrite);
  const Buffer log_p(log_probability.ptr(), ArrayType("log_probability", kReal, {rows, columns}), Access::kWrite);
  if (columns == 0) throw Error(ErrorKind::kInvalid, "logits: no columns given, 1 or more required");
  const Released release;
  find_kernels(instructions).softmax({writable(z), rows, columns, columns}, writable(p), writable(log_p));
}

void project(nb::handle support, nb::handle probability, nb::handle reward, nb::handle discount, nb::handle projected,
             std::string_view instructions) {
  const auto [rows, atoms] = shape_of(probability, "probability");
  const Buffer z(support.ptr(), ArrayType("support", kReal, {atoms}), Access::kRead);
  const Buffer p(probability.ptr(), ArrayType("probability", kReal, {rows, atoms}), Access::kRead);
  const Buffer r(reward.ptr(), ArrayType("reward", kReal, {rows}), Access::kRead);
  const Buffer d(discount.ptr(), ArrayType("discount", kReal, {rows}), Access::kRead);
  const Buffer to(projected.ptr(), ArrayType("projected", kReal, {rows, atoms}), Access::kWrite);
  if (atoms < 2) throw Error(ErrorKind::kInvalid, "probability: fewer than 2 atoms given, 2 or more required");
  const Released release;
  find_kernels(instructions)
      .project({rows, atoms, z.as<float>().data(), p.as<float>().data(), r.as<float>().data(), d.as<float>().data(),
                writable(to)});
}

std::vector<std::string> instructions() {
  std::vector<std::string> names;
  for (const DenseKernels* kernels : available_kernels()) names.emplace_back(kernels->name);
  return names;
}

}  // namespace

void bind_dense(nb::module_& module) {
  module.def("dense_instructions", &instructions);
  module.def("softmax", &softmax, "logits"_a, "probability"_a, "log_probability"_a, nb::kw_only(),
             "instructions"_a = "");
  module.def("project", &project, "support"_a, "probability"_a, "reward"_a, "discount"_a, "projected"_a, nb::kw_only(),
             "instructions"_a = "");

  nb::class_<DenseLayer>(module, "DenseLayer", "A dense layer and where its parameters are.")
      .def("__init__", &make_layer, "inputs"_a, "outputs"_a, nb::kw_only(), "weight"_a, "bias"_a,
           "activation"_a = "none", "normalization"_a = nb::none(), "source"_a = nb::none(), "by_input"_a = false,
           "batch"_a = nb::none());

  nb::class_<DenseNetwork>(module, "DenseNetwork", "A network of dense layers over one vector of parameters.")
      .def("__init__", &make_network, "inputs"_a, "layers"_a, nb::kw_only(), "parameters"_a, "dueling"_a = false,
           "instructions"_a = "", "statistics"_a = 0)
      .def("forward", &forward, "parameters"_a, "x"_a, "y"_a, "statistics"_a.none() = nb::none(),
           "measured"_a.none() = nb::none(), "limits"_a = std::pair<float, float>(1, 0))
      .def("backward", &backward, "parameters"_a, "dy"_a, "gradient"_a.none() = nb::none(), "dx"_a.none() = nb::none())
      .def_prop_ro("outputs", &DenseNetwork::outputs)
      .def_prop_ro("instructions", &DenseNetwork::instructions);
}

}  // namespace headrace::bindings
