#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/client_options.h"
#include "bindings/python_lock.h"
#include "core/mutex.h"
#include "io/sharded_model.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

// Core's ShardedModel for callers on several threads: their calls queue.
class Model {
  template <typename Call>
  auto alone(Call call) EXCLUDES(mutex_) {
    const Released release;
    const LockGuard lock(mutex_);
    return call(core_);
  }

 public:
  Model(const ClientOptions& options, const std::vector<std::string>& addresses, const std::string& name,
        std::size_t count, std::size_t shards, bool share)
      : core_(options, addresses, name, count, shards, share) {}

  std::uint64_t open(const OptimizerOptions& optimizer, std::optional<nb::handle> initial, bool fresh,
                     const std::string& policy, std::uint64_t max_staleness, double compensation) {
    ShardOptions options;
    options.optimizer = optimizer;
    options.policy = ShardOptions::policy_of(policy);
    options.max_staleness = max_staleness;
    options.compensation = compensation;
    std::optional<Buffer> values;
    if (initial) values.emplace(initial->ptr(), "initial", "float32");
    const auto span = values ? values->as<float>() : std::span<const float>();
    return alone([&](ShardedModel& core) { return core.open(options, span, fresh); });
  }

  nb::tuple push(nb::handle gradient) {
    const Buffer values(gradient.ptr(), "gradient", "float32");
    const auto result = alone([&](ShardedModel& core) { return core.push(values.as<float>()); });
    constexpr std::array kWords = {"accepted", "dropped", "refused"};
    return nb::make_tuple(result.version, result.staleness, kWords.at(static_cast<std::size_t>(result.verdict)));
  }

  std::optional<std::uint64_t> fetch_into(nb::handle parameters) {
    const std::size_t size = count();
    const ArrayType type("parameters", Field{"float32", {}}, {size});
    const Buffer values(parameters.ptr(), type, Access::kWrite);
    return alone([&](ShardedModel& core) { return core.fetch({reinterpret_cast<float*>(values.data()), size}); });
  }

  nb::tuple state() {
    const std::array<std::size_t, 2> shape = {vectors(), count()};
    auto values = std::make_unique_for_overwrite<float[]>(shape[0] * shape[1]);
    float* const data = values.get();
    const auto version = alone([&](ShardedModel& core) { return core.state({data, shape[0] * shape[1]}); });
    const nb::capsule owner(values.release(), [](void* held) noexcept { delete[] static_cast<float*>(held); });
    const nb::ndarray<nb::numpy, float, nb::ndim<2>> array(data, shape.size(), shape.data(), owner);
    return nb::make_tuple(version, array);
  }

  void load(std::uint64_t version, nb::handle state) {
    const ArrayType type("state", Field{"float32", {}}, {vectors(), count()});
    const Buffer values(state.ptr(), type, Access::kRead);
    alone([&](ShardedModel& core) { core.load(version, values.as<float>()); });
  }

  // ShardedModel allows these from any thread, at any time.
  std::size_t count() const NO_THREAD_SAFETY_ANALYSIS { return core_.count(); }
  bool shared() const NO_THREAD_SAFETY_ANALYSIS { return core_.shared(); }
  std::uint64_t reconnections() const NO_THREAD_SAFETY_ANALYSIS { return core_.reconnections(); }
  void close() NO_THREAD_SAFETY_ANALYSIS { core_.close(); }

 private:
  std::size_t vectors() {
    return alone([](const ShardedModel& core) { return core.vectors(); });
  }

  Mutex mutex_;  // held by the caller whose turn it is; never waited for with the GIL
  ShardedModel core_ GUARDED_BY(mutex_);
};

void connect(Model* self, const std::vector<std::string>& addresses, const std::string& name, std::size_t count,
             std::size_t shards, bool share, double timeout_seconds, const std::optional<nb::bytes>& token,
             double request_timeout_seconds, double reconnect_seconds) {
  const auto options = client_options("", timeout_seconds, token, request_timeout_seconds, reconnect_seconds);
  const Released release;
  new (self) Model(options, addresses, name, count, shards, share);
}

}  // namespace

void bind_shards(nb::module_& module) {
  nb::class_<Model> model(module, "ShardedModel", "A model's parameters as shards of one or several servers.");
  with_client_arguments([&](const auto&... arguments) {
    model.def("__init__", &connect, "addresses"_a, "name"_a, "count"_a, nb::kw_only(), "shards"_a = 1, "share"_a = true,
              arguments...);
  });
  model
      .def("open", &Model::open, "optimizer"_a, "initial"_a = nb::none(), nb::kw_only(), "fresh"_a,
           "policy"_a = "accept", "max_staleness"_a = 0, "compensation"_a = 0.0)
      .def("push", &Model::push, "gradient"_a)
      .def("fetch_into", &Model::fetch_into, "parameters"_a)
      .def("state", &Model::state)
      .def("load", &Model::load, "version"_a, "state"_a)
      .def_prop_ro("shared", &Model::shared)
      .def_prop_ro("reconnections", &Model::reconnections)
      .def("close", &Model::close, nb::call_guard<Released>());
}

}  // namespace headrace::bindings
