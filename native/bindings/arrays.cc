#include "bindings/arrays.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/error.h"

namespace nb = nanobind;

namespace headrace::bindings {
namespace {

std::string shape_text(auto begin, auto end) {
  std::string text = "(";
  for (auto at = begin; at != end; ++at)
    text += std::to_string(*at) + (end - begin == 1 ? "," : at + 1 == end ? "" : ", ");
  return text + ")";
}

std::string element_text(const Py_buffer& view) {
  const auto element = ElementType::of(view);
  const std::string bits = std::to_string(8 * element.size);
  switch (element.kind) {
    case 'b':
      return "bool";
    case 'i':
      return "int" + bits;
    case 'u':
      return "uint" + bits;
    case 'f':
      return "float" + bits;
    default:
      return "elements of format '" + std::string(view.format ? view.format : "B") + "'";
  }
}

[[noreturn]] void refuse(const std::string& name, const std::string& given, const std::string& required) {
  throw Error(ErrorKind::kInvalid, name + ": " + given + " given, " + required + " required");
}

std::string given_text(const Py_buffer& view) {
  return element_text(view) + " of shape " + shape_text(view.shape, view.shape + view.ndim);
}

// Fills `view`, with formats and strides, or throws with nothing held.
void acquire(PyObject* object, Py_buffer& view, const std::string& name, const std::string& required) {
  if (PyObject_GetBuffer(object, &view, PyBUF_STRIDES | PyBUF_FORMAT) == 0) return;
  PyErr_Clear();
  refuse(name, std::string("a ") + nb::type_name(nb::handle(object).type()).c_str(), required);
}

}  // namespace

ElementType ElementType::of(const std::string& dtype) {
  const std::size_t size = Field{dtype, {}}.item_bytes();
  return {dtype.starts_with("bool") ? 'b' : dtype.front(), size};
}

ElementType ElementType::of(const Py_buffer& view) {
  std::string_view format = view.format ? view.format : "B";
  if (format.starts_with('<') || format.starts_with('=') || format.starts_with('@')) format.remove_prefix(1);
  if (format.size() != 1) return {};
  const auto size = static_cast<std::size_t>(view.itemsize);
  const auto is_one_of = [&](std::string_view codes) { return codes.find(format.front()) != std::string_view::npos; };
  if (is_one_of("?")) return {'b', size};
  if (is_one_of("bhilqn")) return {'i', size};
  if (is_one_of("BHILQN")) return {'u', size};
  if (is_one_of("efd")) return {'f', size};
  return {};
}

ArrayType::ArrayType(std::string name, const Field& field, std::vector<std::size_t> leading)
    : name(std::move(name)), dtype(field.dtype), shape(std::move(leading)), element(ElementType::of(field.dtype)) {
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
}

std::string ArrayType::text() const { return dtype + " of shape " + shape_text(shape.begin(), shape.end()); }

Buffer::Buffer(PyObject* object, const ArrayType& type, Access access) {
  acquire(object, view_, type.name, "an array of " + type.text());
  const bool same_shape =
      std::equal(view_.shape, view_.shape + view_.ndim, type.shape.begin(), type.shape.end(),
                 [](auto given, auto required) { return static_cast<std::size_t>(given) == required; });
  const bool fits = same_shape && ElementType::of(view_) == type.element;
  const bool contiguous = PyBuffer_IsContiguous(&view_, 'C');
  const bool writable = access == Access::kRead || !view_.readonly;
  if (fits && contiguous && writable) return;
  const std::string given = !fits ? given_text(view_) : !contiguous ? "a strided array" : "a read-only array";
  PyBuffer_Release(&view_);
  refuse(type.name, given, !fits ? type.text() : !contiguous ? "a C-contiguous one" : "a writable one");
}

Buffer::Buffer(PyObject* object, const char* name, const char* dtype) {
  const std::string required = std::string("a C-contiguous array of ") + dtype + " with one dimension";
  acquire(object, view_, name, required);
  const bool fits = ElementType::of(view_) == ElementType::of(dtype) && view_.ndim == 1;
  if (fits && PyBuffer_IsContiguous(&view_, 'C')) return;
  const std::string given = fits ? "a strided array" : given_text(view_);
  PyBuffer_Release(&view_);
  refuse(name, given, required);
}

Buffer::Buffer(PyObject* object, const char* name) {
  if (PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) == 0) return;
  PyErr_Clear();
  refuse(name, std::string("a ") + nb::type_name(nb::handle(object).type()).c_str(), "bytes or contiguous bytes-like");
}

void store_integer(PyObject* value, const ArrayType& type, std::byte* to) {
  const nb::object number = nb::steal(PyNumber_Index(value));
  if (!number.is_valid()) throw nb::python_error();
  const auto [kind, size] = type.element;
  const bool is_signed = kind == 'i';
  int overflow = 0;
  const long long wide = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  std::uint64_t bits = static_cast<std::uint64_t>(wide);
  bool fits = overflow == 0 && (is_signed || wide >= 0);
  if (overflow > 0 && !is_signed && size == sizeof(bits)) {
    bits = PyLong_AsUnsignedLongLong(number.ptr());
    fits = PyErr_Occurred() == nullptr;
    PyErr_Clear();
  } else if (fits && size < sizeof(wide)) {
    const long long limit = 1ll << (8 * size - (is_signed ? 1 : 0));
    fits = wide < limit && wide >= (is_signed ? -limit : 0);
  }
  if (!fits) refuse(type.name, nb::str(number).c_str(), "a value of " + type.dtype);
  std::memcpy(to, &bits, size);  // little-endian: the low bytes come first
}

}  // namespace headrace::bindings
