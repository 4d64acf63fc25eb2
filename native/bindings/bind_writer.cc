#include <nanobind/nanobind.h>

#include <cstddef>
#include <limits>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "core/chunk_writer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool truth(nb::handle value) {
  const int result = PyObject_IsTrue(value.ptr());  // bool and numpy.bool_ alike
  if (result < 0) throw nb::python_error();
  return result == 1;
}

class Writer {
 public:
  explicit Writer(WriterOptions options)
      : writer_(options),
        observation_("observation", options.signature.observation),
        action_("action", options.signature.action),
        action_bytes_(options.signature.action.bytes()) {}

  void start(nb::handle observation) {
    const Buffer frame(observation.ptr(), observation_, Access::kRead);
    writer_.start(frame.data());
  }

  void append(nb::handle action, double reward, nb::handle observation, nb::handle terminated, nb::handle truncated,
              double chosen_value, double greedy_value, double final_greedy_value) {
    const Buffer frame(observation.ptr(), observation_, Access::kRead);
    const auto step = [&](const std::byte* action_data) {
      writer_.append(action_data, static_cast<float>(reward), frame.data(), truth(terminated), truth(truncated),
                     {chosen_value, greedy_value}, final_greedy_value);
    };
    if (is_scalar_integer(action)) {
      store_integer(action.ptr(), action_, action_bytes_.data());
      step(action_bytes_.data());
    } else {
      const Buffer held(action.ptr(), action_, Access::kRead);
      step(held.data());
    }
  }

  ChunkWriter& writer() { return writer_; }

 private:
  // NumPy's integers have the index protocol too, and so have its arrays of one integer.
  bool is_scalar_integer(nb::handle action) const {
    const char kind = action_.element.kind;
    if (!action_.shape.empty() || (kind != 'i' && kind != 'u')) return false;
    return PyLong_Check(action.ptr()) || (PyIndex_Check(action.ptr()) && !PySequence_Check(action.ptr()));
  }

  ChunkWriter writer_;
  const ArrayType observation_;
  const ArrayType action_;
  std::vector<std::byte> action_bytes_;
};

}  // namespace

void bind_writer(nb::module_& module) {
  nb::class_<Writer>(module, "ChunkWriter", "Turns the steps of one environment into chunks of n-step transitions.")
      .def(
          "__init__",
          [](Writer* self, const Signature& signature, std::uint32_t n_step, double discount, std::uint32_t chunk_steps,
             std::uint32_t actor) {
            new (self) Writer(WriterOptions{signature, n_step, discount, chunk_steps, actor});
          },
          "signature"_a, nb::kw_only(), "n_step"_a = 1, "discount"_a = 0.99, "chunk_steps"_a = 50, "actor"_a = 0)
      .def("start", &Writer::start, "observation"_a)
      .def("append", &Writer::append, "action"_a, "reward"_a, "observation"_a, "terminated"_a, "truncated"_a,
           "chosen_value"_a = kUnknown, "greedy_value"_a = kUnknown, "final_greedy_value"_a = kUnknown)
      .def("flush", [](Writer& self) { self.writer().flush(); })
      .def(
          "set_policy_version", [](Writer& self, std::uint64_t version) { self.writer().set_policy_version(version); },
          "version"_a)
      .def("take", [](Writer& self) { return to_list(self.writer().take()); })
      .def_prop_ro("finished", [](Writer& self) { return self.writer().finished(); });
}

}  // namespace headrace::bindings
