#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <string_view>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/python_lock.h"
#include "core/optimizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

void make_options(OptimizerOptions* self, std::string_view kind, double learning_rate, double decay, double epsilon,
                  double beta1, double beta2) {
  const OptimizerOptions options{OptimizerOptions::kind_of(kind), learning_rate, decay, epsilon, beta1, beta2};
  options.check();
  new (self) OptimizerOptions(options);
}

void apply(Optimizer& optimizer, nb::handle parameters, nb::handle gradient) {
  const Field real{"float32", {}};
  const Buffer values(parameters.ptr(), ArrayType("parameters", real, {optimizer.count()}), Access::kWrite);
  const Buffer change(gradient.ptr(), ArrayType("gradient", real, {optimizer.count()}), Access::kRead);
  const Released release;
  optimizer.apply({reinterpret_cast<float*>(values.data()), optimizer.count()}, change.as<float>());
}

nb::object moments(nb::handle self) {
  auto& optimizer = nb::cast<Optimizer&>(self);
  return nb::cast(nb::ndarray<nb::numpy, float>(optimizer.data(), {optimizer.moments(), optimizer.count()}, self));
}

}  // namespace

void bind_optimizer(nb::module_& module) {
  nb::class_<OptimizerOptions>(module, "OptimizerOptions", "An optimizer's kind and settings, checked.")
      .def("__init__", &make_options, "kind"_a, nb::kw_only(), "learning_rate"_a = 1e-3, "decay"_a = 0.99,
           "epsilon"_a = 1e-8, "beta1"_a = 0.9, "beta2"_a = 0.999)
      .def_static("decode", &OptimizerOptions::decode, "text"_a)
      .def("encode", &OptimizerOptions::encode)
      .def_prop_ro("kind", &OptimizerOptions::name)
      .def_prop_ro("moments", &OptimizerOptions::moments)
      .def_ro("learning_rate", &OptimizerOptions::learning_rate)
      .def_ro("decay", &OptimizerOptions::decay)
      .def_ro("epsilon", &OptimizerOptions::epsilon)
      .def_ro("beta1", &OptimizerOptions::beta1)
      .def_ro("beta2", &OptimizerOptions::beta2)
      .def(
          "__eq__", [](const OptimizerOptions& self, const OptimizerOptions& other) { return self == other; },
          nb::is_operator())
      .def("__hash__", [](const OptimizerOptions& self) { return std::hash<std::string>()(self.encode()); });

  nb::class_<Optimizer>(module, "Optimizer", "Applies gradients to one vector of parameters.")
      .def(nb::init<const OptimizerOptions&, std::size_t>(), "options"_a, "count"_a)
      .def("apply", &apply, "parameters"_a, "gradient"_a)
      .def_prop_ro("moments", &moments)
      .def_prop_rw("steps", &Optimizer::steps, &Optimizer::set_steps);

  module.attr("GRADIENT_LIMIT") = kGradientLimit;
}

}  // namespace headrace::bindings
