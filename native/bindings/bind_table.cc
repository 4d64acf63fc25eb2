#include "bindings/bind_table.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/batch_view.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/python_lock.h"
#include "core/batch_ahead.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

using Timeout = std::optional<double>;

std::optional<std::uint64_t> insert(Table& table, nb::handle chunk, Timeout timeout_seconds) {
  const Buffer bytes(chunk.ptr(), "chunk");
  return wait_in_slices(timeout_seconds, [&](Deadline deadline) { return table.insert(bytes.bytes(), deadline); });
}

bool sample_into(Table& table, const BatchArrays& batch, double importance_exponent, Timeout timeout_seconds) {
  batch.check(table.options().signature);
  if (timeout_seconds && *timeout_seconds <= 0) {  // a caller that polls must not be put to sleep
    const Released release;
    return table.try_sample(batch.view(), importance_exponent);
  }
  return wait_in_slices(timeout_seconds,
                        [&](Deadline deadline) { return table.sample(batch.view(), importance_exponent, deadline); });
}

std::uint64_t update_priorities(Table& table, nb::handle key, nb::handle priority) {
  const Buffer keys(key.ptr(), "key", "uint64");
  const Buffer priorities(priority.ptr(), "priority", "float32");
  const Released release;
  return table.update_priorities(keys.as<std::uint64_t>(), priorities.as<float>());
}

nb::dict stats(const Table& table) {
  const TableStats stats = [&] {
    const Released release;
    return table.stats();
  }();
  nb::dict result;
  const auto set = [&](const char* name, auto value) { result[name] = static_cast<double>(value); };
  set("size", stats.size);
  set("capacity", stats.capacity);
  set("inserts", stats.inserts);
  set("samples", stats.samples);
  set("updates", stats.updates);
  set("dropped_updates", stats.dropped_updates);
  set("evicted", stats.evicted);
  set("chunks", stats.chunks);
  set("used_bytes", stats.used_bytes);
  set("capacity_bytes", stats.capacity_bytes);
  set("samples_per_insert", stats.samples_per_insert);
  set("insert_blocked_seconds", stats.insert_blocked_seconds);
  set("sample_blocked_seconds", stats.sample_blocked_seconds);
  set("max_priority", stats.max_priority);
  set("total_weight", stats.total_weight);
  set("recovered", stats.recovered);
  set("lost", stats.lost);
  return result;
}

// Core's BatchAhead together with the Python objects that its thread writes into.
class Ahead {
 public:
  Ahead(std::shared_ptr<Table> table, const std::vector<nb::object>& buffers, double importance_exponent)
      : table_(std::move(table)), buffers_(buffers) {
    std::vector<BatchView> views;
    for (const auto& buffer : buffers_) {
      const auto& arrays = nb::cast<const BatchArrays&>(buffer);
      arrays.check(table_->options().signature);
      views.push_back(arrays.view());
    }
    ahead_ = std::make_shared<BatchAhead>(*table_, std::move(views), importance_exponent);
  }
  ~Ahead() { close(); }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  std::optional<std::size_t> next(Timeout timeout_seconds) {
    const auto ahead = open();
    return wait_in_slices(timeout_seconds, [&](Deadline deadline) { return ahead->next(deadline); });
  }
  void release(std::size_t index) { open()->release(index); }
  void set_importance_exponent(double exponent) { open()->set_importance_exponent(exponent); }
  void close() {
    auto ahead = std::move(ahead_);
    const Released release;
    ahead.reset();  // waits for the thread
  }

 private:
  std::shared_ptr<BatchAhead> open() const {
    if (!ahead_) throw Error(ErrorKind::kClosed, "batches ahead: closed");
    return ahead_;
  }

  const std::shared_ptr<Table> table_;
  const std::vector<nb::object> buffers_;
  std::shared_ptr<BatchAhead> ahead_;
};

void bind_batches(nb::module_& module) {
  nb::class_<BatchArrays>(module, "BatchView", "The arrays of one batch, checked once and then reused.")
      .def(
          "__init__",
          [](BatchArrays* self, const Signature& signature, nb::handle observation, nb::handle next_observation,
             nb::handle action, nb::handle reward, nb::handle discount, nb::handle weight, nb::handle probability,
             nb::handle key, nb::handle policy_version) {
            new (self) BatchArrays(
                signature, {observation.ptr(), next_observation.ptr(), action.ptr(), reward.ptr(), discount.ptr(),
                            weight.ptr(), probability.ptr(), key.ptr(), policy_version.ptr()});
          },
          "signature"_a, "observation"_a, "next_observation"_a, "action"_a, "reward"_a, "discount"_a, "weight"_a,
          "probability"_a, "key"_a, "policy_version"_a);

  nb::class_<Ahead>(module, "BatchAhead", "A thread that samples into the caller's buffers in turn.")
      .def(nb::init<std::shared_ptr<Table>, const std::vector<nb::object>&, double>(), "table"_a, "buffers"_a,
           "importance_exponent"_a)
      .def("next", &Ahead::next, "timeout_seconds"_a = nb::none())
      .def("release", &Ahead::release, "index"_a)
      .def("set_importance_exponent", &Ahead::set_importance_exponent, "importance_exponent"_a)
      .def("close", &Ahead::close);
}

void make_table(Table* self, const Signature& signature, std::uint64_t capacity, std::uint64_t capacity_bytes,
                const std::string& sampler, double priority_exponent, double samples_per_insert,
                double limiter_tolerance, std::uint64_t min_size, std::uint64_t seed, std::string path) {
  auto options = table_options(signature, capacity, capacity_bytes, sampler, priority_exponent, samples_per_insert,
                               limiter_tolerance, min_size, seed, std::move(path));
  const Released release;  // a file of many gigabytes may be allocated, or walked
  new (self) Table(std::move(options));
}

}  // namespace

void bind_table(nb::module_& module) {
  nb::class_<Table> table(module, "Table", "Chunks of experience with prioritized or uniform sampling.");
  with_table_arguments(
      [&](const auto&... arguments) { table.def("__init__", &make_table, arguments..., "path"_a = ""); });
  table.def_prop_ro("signature", [](const Table& self) { return self.options().signature; })
      .def_prop_ro("capacity", [](const Table& self) { return self.options().capacity; })
      .def_prop_ro("size", &Table::size)
      .def("insert", &insert, "chunk"_a, "timeout_seconds"_a = nb::none())
      .def("sample_into", &sample_into, "batch"_a, "importance_exponent"_a, "timeout_seconds"_a = nb::none())
      .def("update_priorities", &update_priorities, "key"_a, "priority"_a)
      .def("set_paused", &Table::set_paused, "paused"_a, nb::call_guard<Released>())
      .def("close", &Table::close, nb::call_guard<Released>())
      .def("reopen", &Table::reopen, nb::call_guard<Released>())
      .def("save", &Table::save, "path"_a, nb::call_guard<Released>())
      .def("restore", &Table::restore, "path"_a, nb::call_guard<Released>())
      .def("stats", &stats);
  bind_batches(module);
}

}  // namespace headrace::bindings
