#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.h"
#include "core/signature.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

using Shape = std::vector<std::uint32_t>;

Signature make_signature(Shape observation_shape, std::string observation_dtype, Shape action_shape,
                         std::string action_dtype, std::uint32_t stack) {
  Signature signature{{std::move(observation_dtype), std::move(observation_shape)},
                      {std::move(action_dtype), std::move(action_shape)},
                      stack};
  signature.check();
  return signature;
}

nb::tuple as_tuple(const Shape& shape) {
  nb::list list;
  for (const auto size : shape) list.append(size);
  return nb::tuple(list);
}

}  // namespace

void bind_signature(nb::module_& module) {
  nb::class_<Signature>(module, "Signature", "What one step of experience looks like: element types, shapes, stack.")
      .def(
          "__init__",
          [](Signature* self, Shape observation_shape, std::string observation_dtype, Shape action_shape,
             std::string action_dtype, std::uint32_t stack) {
            new (self) Signature(make_signature(std::move(observation_shape), std::move(observation_dtype),
                                                std::move(action_shape), std::move(action_dtype), stack));
          },
          "observation_shape"_a, "observation_dtype"_a, "action_shape"_a = nb::make_tuple(), "action_dtype"_a = "int64",
          "stack"_a = 1)
      .def_static("decode", &Signature::decode, "text"_a)
      .def("encode", &Signature::encode)
      .def_prop_ro("observation_shape", [](const Signature& self) { return as_tuple(self.observation.shape); })
      .def_prop_ro("observation_dtype", [](const Signature& self) { return self.observation.dtype; })
      .def_prop_ro("action_shape", [](const Signature& self) { return as_tuple(self.action.shape); })
      .def_prop_ro("action_dtype", [](const Signature& self) { return self.action.dtype; })
      .def_prop_ro("stack", [](const Signature& self) { return self.stack; })
      .def(
          "__eq__", [](const Signature& self, const Signature& other) { return self == other; }, nb::is_operator())
      .def("__hash__", [](const Signature& self) { return std::hash<std::string>()(self.encode()); });
}

}  // namespace headrace::bindings
