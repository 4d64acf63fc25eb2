#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstddef>
#include <deque>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/python_lock.h"
#include "core/quantization.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

nb::bytes join_bytes(const nb::list& parts) {
  std::deque<Buffer> buffers;
  std::size_t size = 0;
  for (const nb::handle part : parts) size += buffers.emplace_back(part.ptr(), "part").size();
  auto result = new_bytes(size);
  auto* to = reinterpret_cast<std::byte*>(PyBytes_AsString(result.ptr()));
  const Released release;
  for (const Buffer& buffer : buffers) to = std::ranges::copy(buffer.bytes(), to).out;
  return result;
}

void quantize(nb::handle weights, nb::handle codes, nb::handle scales) {
  const std::size_t outputs = nb::len(scales), inputs = nb::len(codes);
  const Buffer from(weights.ptr(), ArrayType("weights", {"float32", {}}, {outputs, inputs}), Access::kRead);
  const Buffer to(codes.ptr(), ArrayType("codes", {"int8", {}}, {inputs, outputs}), Access::kWrite);
  const Buffer scale(scales.ptr(), ArrayType("scales", {"float32", {}}, {outputs}), Access::kWrite);
  const Released release;
  quantize_channels(from.as<float>(), outputs, inputs, {reinterpret_cast<std::int8_t*>(to.data()), to.size()},
                    {reinterpret_cast<float*>(scale.data()), outputs});
}

}  // namespace

void bind_encoding(nb::module_& module) {
  module.attr("LARGEST_CODE") = kLargestCode;
  module.def("join_bytes", &join_bytes, "parts"_a);
  module.def("quantize", &quantize, "weights"_a, "codes"_a, "scales"_a);
}

}  // namespace headrace::bindings
