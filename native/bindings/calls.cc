#include "bindings/calls.h"

#include <nanobind/stl/string.h>

#include <array>
#include <cstring>
#include <exception>
#include <string_view>

#include "core/huge_array.h"

namespace headrace::bindings {
namespace {

constexpr std::size_t kLongCopyBytes = 256 << 10;
constexpr std::size_t kMappedBytes = 32 << 20;  // the heap keeps no freed blocks of this size: each is mapped afresh

// The classes of headrace.errors by ErrorKind, held for the life of the process.
std::array<PyObject*, static_cast<std::size_t>(kLastErrorKind) + 1> error_classes = {};

void translate(const std::exception_ptr& raised, void*) {
  try {
    std::rethrow_exception(raised);
  } catch (const Error& error) {
    const std::string_view what = error.what();  // a server's words may be any bytes
    const auto text =
        nb::steal(PyUnicode_DecodeUTF8(what.data(), static_cast<Py_ssize_t>(what.size()), "backslashreplace"));
    if (text.is_valid()) PyErr_SetObject(error_classes.at(static_cast<std::size_t>(error.kind())), text.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_&) {
  const auto errors = nb::module_::import_("headrace.errors");
  const auto set = [&](ErrorKind kind, const char* name) {
    error_classes.at(static_cast<std::size_t>(kind)) = nb::object(errors.attr(name)).release().ptr();
  };
  set(ErrorKind::kInvalid, "ConfigError");
  set(ErrorKind::kRefused, "ServerError");
  set(ErrorKind::kNotFound, "ServerError");
  set(ErrorKind::kClosed, "ClosedError");
  set(ErrorKind::kMalformed, "ServerError");
  set(ErrorKind::kSystem, "StorageError");
  set(ErrorKind::kChunkRefused, "ChunkRefused");
  set(ErrorKind::kMismatch, "ReplayError");
  set(ErrorKind::kCorrupt, "CorruptFile");
  nb::register_exception_translator(translate);
}

nb::bytes new_bytes(std::size_t size) {
  auto result = nb::steal<nb::bytes>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!result.is_valid()) throw nb::python_error();
  if (size >= kMappedBytes) advise_huge(reinterpret_cast<std::byte*>(PyBytes_AsString(result.ptr())), size);
  return result;
}

nb::bytes to_bytes(std::span<const std::byte> bytes) {
  auto result = new_bytes(bytes.size());
  char* to = PyBytes_AsString(result.ptr());
  if (bytes.size() >= kLongCopyBytes) {
    const Released release;
    std::memcpy(to, bytes.data(), bytes.size());
  } else if (!bytes.empty()) {
    std::memcpy(to, bytes.data(), bytes.size());
  }
  return result;
}

nb::dict from_json(const std::string& text) {
  const auto loads = nb::module_::import_("json").attr("loads");
  nb::object value;
  try {
    value = loads(to_bytes(std::as_bytes(std::span(text))));
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_ValueError) && !error.matches(PyExc_RecursionError)) throw;
  }
  if (!value.is_valid() || !nb::isinstance<nb::dict>(value)) {
    throw Error(ErrorKind::kMalformed, "stats: the server's answer is not a JSON object");
  }
  return nb::cast<nb::dict>(value);
}

nb::list to_list(std::span<const std::vector<std::byte>> messages) {
  nb::list result;
  for (const auto& message : messages) result.append(to_bytes(message));
  return result;
}

}  // namespace headrace::bindings
