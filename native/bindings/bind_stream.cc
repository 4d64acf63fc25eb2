#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/client_options.h"
#include "bindings/python_lock.h"
#include "io/batch_stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

nb::dlpack::dtype element_of(const Field& field) {
  const auto [kind, size] = ElementType::of(field.dtype);
  using nb::dlpack::dtype_code;
  const auto code = kind == 'b'   ? dtype_code::Bool
                    : kind == 'i' ? dtype_code::Int
                    : kind == 'u' ? dtype_code::UInt
                                  : dtype_code::Float;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * size), 1};
}

// A read-only NumPy array [leading..., *field.shape] over `data`, which `owner` keeps alive.
nb::object array_of(const void* data, const Field& field, std::vector<std::size_t> leading, nb::handle owner) {
  leading.insert(leading.end(), field.shape.begin(), field.shape.end());
  const nb::ndarray<nb::numpy, nb::ro> array(data, leading.size(), leading.data(), owner, nullptr, element_of(field));
  return nb::cast(array);
}

// Core's BatchStream, and the arrays over each of its batches, made once.
class ArrayStream {
 public:
  ArrayStream(ClientOptions options, std::string table, std::uint32_t batch_size, std::size_t credit,
              double importance_exponent)
      : batch_size_(batch_size),
        stream_(std::in_place, std::move(options), std::move(table), batch_size, credit, importance_exponent) {}
  ~ArrayStream() {
    const Released release;  // its thread may be looking up the server's name, which takes as long as it takes
    stream_.reset();
  }
  ArrayStream(const ArrayStream&) = delete;
  ArrayStream& operator=(const ArrayStream&) = delete;

  const Signature& signature() const { return stream_->signature(); }
  bool shared() const { return stream_->shared(); }

  std::optional<nb::object> next(std::optional<double> timeout_seconds) {
    auto batch = stream_->next(Deadline::min());  // if a batch is ready, releasing the GIL is not worth it
    if (!batch) {
      batch = wait_in_slices(timeout_seconds, [&](Deadline deadline) { return stream_->next(deadline); });
    }
    if (!batch) return std::nullopt;
    if (batch->memory != memory_) arrays_.clear();
    memory_ = batch->memory;
    if (batch->index >= arrays_.size()) arrays_.resize(batch->index + 1);
    auto& arrays = arrays_[batch->index];
    if (!arrays.is_valid()) arrays = arrays_over(*batch);
    return arrays;
  }

  void post_priorities(nb::handle key, nb::handle priority) {
    const Buffer keys(key.ptr(), "key", "uint64");
    const Buffer priorities(priority.ptr(), "priority", "float32");
    stream_->post_priorities(keys.as<std::uint64_t>(), priorities.as<float>());
  }

  void close() {
    const Released release;
    stream_->close();
  }

 private:
  nb::object arrays_over(const BatchStream::Batch& batch) const {
    const nb::capsule owner(new std::shared_ptr<const void>(batch.owner),
                            [](void* held) noexcept { delete static_cast<std::shared_ptr<const void>*>(held); });
    const Signature& signature = stream_->signature();
    const std::size_t B = batch_size_;
    const auto stacked =
        signature.stack == 1 ? std::vector<std::size_t>{B} : std::vector<std::size_t>{B, signature.stack};
    const Field real{"float32", {}};
    const Field number{"uint64", {}};
    const BatchView& view = batch.view;
    return nb::make_tuple(array_of(view.observation, signature.observation, stacked, owner),
                          array_of(view.next_observation, signature.observation, stacked, owner),
                          array_of(view.action, signature.action, {B}, owner), array_of(view.reward, real, {B}, owner),
                          array_of(view.discount, real, {B}, owner), array_of(view.weight, real, {B}, owner),
                          array_of(view.probability, real, {B}, owner), array_of(view.key, number, {B}, owner),
                          array_of(view.policy_version, number, {B}, owner));
  }

  const std::size_t batch_size_;
  std::optional<BatchStream> stream_;  // until the end
  std::uint64_t memory_ = 0;           // that arrays_ lie over
  std::vector<nb::object> arrays_;     // by a batch's index; of what the consumer has not seen yet: none
};

void connect(ArrayStream* self, std::string address, std::string table, std::uint32_t batch_size,
             double importance_exponent, std::size_t credit, double timeout_seconds,
             const std::optional<nb::bytes>& token, double request_timeout_seconds, double reconnect_seconds) {
  auto options = client_options(std::move(address), timeout_seconds, token, request_timeout_seconds, reconnect_seconds);
  // The stream's own thread must not ask for the GIL: the interpreter may be gone before it.
  options.interrupt = [caller = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == caller) check_signals();
  };
  const Released release;
  new (self) ArrayStream(std::move(options), std::move(table), batch_size, credit, importance_exponent);
}

}  // namespace

void bind_stream(nb::module_& module) {
  nb::class_<ArrayStream> stream(module, "BatchStream", "Batches kept in flight ahead of a learner.");
  with_client_arguments([&](const auto&... arguments) {
    stream.def("__init__", &connect, "address"_a, "table"_a, "batch_size"_a, "importance_exponent"_a, nb::kw_only(),
               "credit"_a = 4, arguments...);
  });
  stream.def_prop_ro("signature", &ArrayStream::signature, nb::rv_policy::copy)
      .def_prop_ro("shared", &ArrayStream::shared)
      .def("next", &ArrayStream::next, "timeout_seconds"_a = nb::none())
      .def("post_priorities", &ArrayStream::post_priorities, "key"_a, "priority"_a)
      .def("close", &ArrayStream::close);
}

}  // namespace headrace::bindings
