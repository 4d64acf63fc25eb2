#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
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

// NaN is the largest: the maximum of values with a NaN is NaN, as in NumPy.
bool below(float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

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

// An array with one row for each of E environments.
class Rows {
 public:
  Rows(nb::handle array, const char* name, const Field& field, std::size_t count)
      : buffer_(array.ptr(), ArrayType(name, field, {count}), Access::kRead), row_bytes_(field.bytes()) {}

  const std::byte* operator[](std::size_t row) const { return buffer_.data() + row * row_bytes_; }
  template <typename T>
  T value(std::size_t row) const {
    return buffer_.as<T>()[row];
  }

 private:
  const Buffer buffer_;
  const std::size_t row_bytes_;
};

const Field kReal{"float32", {}}, kFlag{"bool", {}};

// The Q values of E states for A actions, and those of the final observations; NaN where there are none.
class QValues {
 public:
  QValues(nb::handle array, nb::handle final_greedy, const Signature& signature, std::size_t count) {
    if (!final_greedy.is_none()) final_.emplace(final_greedy, "final_greedy_value", kReal, count);
    if (array.is_none()) return;
    if (signature.action != Field{"int64", {}}) {
      throw Error(ErrorKind::kInvalid, "value: given with actions " + signature.encode() + ", int64[] required");
    }
    const auto columns = nb::cast<nb::tuple>(nb::getattr(array, "shape", nb::make_tuple(0, 0)));
    actions_ = columns.size() == 2 ? nb::cast<std::uint32_t>(columns[1]) : 1;
    rows_.emplace(array, "value", Field{"float32", {actions_}}, count);
  }

  Values of(std::size_t row, const std::byte* action) const {
    if (!rows_) return {};
    std::int64_t chosen = 0;
    std::memcpy(&chosen, action, sizeof(chosen));
    if (chosen < 0 || chosen >= actions_) {
      throw Error(ErrorKind::kInvalid, "action: " + std::to_string(chosen) + " given, below " +
                                           std::to_string(actions_) + " required, the number of values");
    }
    const std::span values(reinterpret_cast<const float*>((*rows_)[row]), actions_);
    return {values[static_cast<std::size_t>(chosen)], *std::ranges::max_element(values, below)};
  }
  double final_greedy(std::size_t row) const { return final_ ? final_->value<float>(row) : kUnknown; }

 private:
  std::optional<Rows> rows_, final_;
  std::uint32_t actions_ = 0;
};

nb::list append_steps(const nb::list& writers, nb::handle action, nb::handle reward, nb::handle observation,
                      nb::handle terminated, nb::handle truncated, nb::handle next_start, nb::handle value,
                      nb::handle final_greedy_value) {
  std::vector<std::vector<std::byte>> chunks;
  const std::size_t count = writers.size();
  if (count == 0) return to_list(chunks);
  const Signature signature = nb::cast<Writer&>(writers[0]).writer().options().signature;
  const Rows actions(action, "action", signature.action, count), rewards(reward, "reward", kReal, count);
  const Rows observations(observation, "observation", signature.observation, count);
  const Rows starts(next_start, "next_start", signature.observation, count);
  const Rows ends(terminated, "terminated", kFlag, count), cuts(truncated, "truncated", kFlag, count);
  const QValues values(value, final_greedy_value, signature, count);
  for (std::size_t row = 0; row < count; ++row) {
    ChunkWriter& writer = nb::cast<Writer&>(writers[row]).writer();
    if (writer.options().signature != signature) {
      throw Error(ErrorKind::kInvalid, "writers: one has signature " + writer.options().signature.encode() + ", " +
                                           signature.encode() + " required");
    }
    const bool end = ends.value<bool>(row), cut = cuts.value<bool>(row);
    writer.append(actions[row], rewards.value<float>(row), observations[row], end, cut, values.of(row, actions[row]),
                  values.final_greedy(row));
    if (end || cut) writer.start(starts[row]);
    if (writer.finished() > 0) std::ranges::move(writer.take(), std::back_inserter(chunks));
  }
  return to_list(chunks);
}

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

  module.def("append_steps", &append_steps, "writers"_a, "action"_a, "reward"_a, "observation"_a, "terminated"_a,
             "truncated"_a, "next_start"_a, "value"_a.none() = nb::none(), "final_greedy_value"_a.none() = nb::none(),
             "One step of each of E environments; episodes that ended are followed by the next. The finished chunks.");
}

}  // namespace headrace::bindings
