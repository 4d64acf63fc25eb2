#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/python_lock.h"
#include "core/error.h"
#include "core/shared_model.h"
#include "io/shared_file.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

const Field kReal{"float32", {}};

// Core's SharedModel together with its memory.
class MappedModel {
 public:
  explicit MappedModel(const std::string& path) : MappedModel(SharedFile(path)) {}
  explicit MappedModel(SharedFile file) : file_(std::move(file)), model_(file_.memory()) {}

  static std::unique_ptr<MappedModel> create(nb::handle parameters, const OptimizerOptions& optimizer,
                                             std::string_view mode, std::uint32_t workers, bool own_optimizer_state,
                                             double l1_penalty) {
    const Buffer initial(parameters.ptr(), "parameters", "float32");
    const auto values = initial.as<float>();
    const SharedModelOptions options{optimizer, sharing_of(mode), own_optimizer_state,
                                     workers,   values.size(),    l1_penalty};
    options.check();
    const Released release;
    SharedFile file(SharedModel::bytes(options));
    SharedModel::format(file.memory(), options, values);
    return std::make_unique<MappedModel>(std::move(file));
  }

  const std::string& path() const { return file_.path(); }
  SharedModel& model() { return model_; }
  std::size_t count() const { return model_.options().count; }

 private:
  const SharedFile file_;
  SharedModel model_;
};

nb::object parameters(nb::handle self, std::uint32_t worker) {
  const auto values = nb::cast<MappedModel&>(self).model().parameters(worker);
  return nb::cast(nb::ndarray<nb::numpy, float>(values.data(), {values.size()}, self));
}

std::uint64_t read_into(MappedModel& self, nb::handle out, std::int32_t worker) {
  const Buffer to(out.ptr(), ArrayType("out", kReal, {self.count()}), Access::kWrite);
  const std::span values(reinterpret_cast<float*>(to.data()), self.count());
  const Released release;
  return worker < 0 ? self.model().read_into(values)
                    : self.model().read_into(values, static_cast<std::uint32_t>(worker));
}

nb::tuple apply(MappedModel& self, std::uint32_t worker, nb::handle gradient, std::uint64_t base_version) {
  const Buffer change(gradient.ptr(), ArrayType("gradient", kReal, {self.count()}), Access::kRead);
  const auto applied = [&] {
    const Released release;
    return self.model().apply(worker, change.as<float>(), base_version);
  }();
  return nb::make_tuple(applied.version, applied.staleness);
}

// A NumPy array that owns `values`.
template <class T>
nb::object array_of(std::vector<T> values, const std::vector<std::size_t>& shape) {
  auto* kept = new std::vector<T>(std::move(values));
  const nb::capsule owner(kept, [](void* held) noexcept { delete static_cast<std::vector<T>*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, T>(kept->data(), shape.size(), shape.data(), owner));
}

nb::dict state(MappedModel& self) {
  SharedModel& model = self.model();
  auto state = [&] {
    const Released release;
    return model.state();
  }();
  const std::size_t P = self.count(), S = model.moment_sets(), M = model.options().optimizer.moments();
  nb::dict result;
  result["version"] = array_of(std::vector{state.version}, {});
  result["steps"] = array_of(std::move(state.steps), {S});
  result["joined"] = array_of(std::move(state.joined), {model.options().workers});
  result["parameters"] = array_of(std::move(state.parameters), {model.parameter_sets(), P});
  result["moments"] = array_of(std::move(state.moments), {S, M, P});
  return result;
}

template <class T>
std::vector<T> values_of(const nb::dict& state, const char* name, const char* dtype,
                         const std::vector<std::size_t>& shape) {
  if (!state.contains(name)) {
    throw Error(ErrorKind::kInvalid, "a shared model's state has no \"" + std::string(name) + "\", which is required");
  }
  const nb::object given = state[name];
  const Buffer values(given.ptr(), ArrayType(name, Field{dtype, {}}, shape), Access::kRead);
  const auto elements = values.as<T>();
  return {elements.begin(), elements.end()};
}

void load(MappedModel& self, const nb::dict& given) {
  SharedModel& model = self.model();
  const std::size_t P = self.count(), S = model.moment_sets(), M = model.options().optimizer.moments();
  SharedModel::State state;
  state.version = values_of<std::uint64_t>(given, "version", "uint64", {}).front();
  state.steps = values_of<std::uint64_t>(given, "steps", "uint64", {S});
  state.joined = values_of<std::uint8_t>(given, "joined", "uint8", {model.options().workers});
  state.parameters = values_of<float>(given, "parameters", "float32", {model.parameter_sets(), P});
  state.moments = values_of<float>(given, "moments", "float32", {S, M, P});
  const Released release;
  model.load(state);
}

}  // namespace

void bind_shared_model(nb::module_& module) {
  using Release = nb::call_guard<Released>;
  nb::class_<MappedModel>(module, "SharedModel", "A model in memory that workers of this machine share.")
      .def_static("create", &MappedModel::create, "parameters"_a, "optimizer"_a, nb::kw_only(), "mode"_a, "workers"_a,
                  "own_optimizer_state"_a, "l1_penalty"_a = 0.0)
      .def_static(
          "open", [](const std::string& path) { return std::make_unique<MappedModel>(path); }, "path"_a)
      .def_prop_ro("path", &MappedModel::path)
      .def_prop_ro("count", &MappedModel::count)
      .def_prop_ro("workers", [](MappedModel& self) { return self.model().options().workers; })
      .def_prop_ro("parameter_sets", [](MappedModel& self) { return self.model().parameter_sets(); })
      .def_prop_ro("version", [](MappedModel& self) { return self.model().version(); })
      .def("parameters", &parameters, "worker"_a)
      .def("read_into", &read_into, "out"_a, "worker"_a = -1)
      .def(
          "join", [](MappedModel& self, std::uint32_t worker) { self.model().join(worker); }, "worker"_a, Release())
      .def("apply", &apply, "worker"_a, "gradient"_a, "base_version"_a)
      .def(
          "average",
          [](MappedModel& self, std::uint32_t worker, std::uint32_t neighbor) {
            return self.model().average(worker, neighbor);
          },
          "worker"_a, "neighbor"_a, Release())
      .def(
          "lock_wait_seconds",
          [](MappedModel& self, std::uint32_t worker) { return self.model().lock_wait_seconds(worker); }, "worker"_a)
      .def("state", &state)
      .def("load", &load, "state"_a);
}

}  // namespace headrace::bindings
