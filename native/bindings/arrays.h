// NumPy arrays (anything with the buffer protocol) checked against a signature.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/signature.h"

namespace headrace::bindings {

// An element type as the buffer protocol describes it: kind 'b' bool, 'i' signed, 'u' unsigned, 'f' float; size in
// bytes.
struct ElementType {
  char kind = 0;
  std::size_t size = 0;

  static ElementType of(const std::string& dtype);  // of a dtype that Field::item_bytes() accepts
  static ElementType of(const Py_buffer& view);     // kind 0: none of these
  bool operator==(const ElementType&) const = default;
};

// What an array must be: the name of the argument, an element type and a shape.
struct ArrayType {
  std::string name;
  std::string dtype;
  std::vector<std::size_t> shape;
  ElementType element;

  // `leading` axes before the field's own.
  ArrayType(std::string name, const Field& field, std::vector<std::size_t> leading = {});
  std::string text() const;  // "float32 of shape (8,)"
};

enum class Access { kRead, kWrite };

// Holds an object's memory in place and alive. Constructed and destroyed with the GIL.
class Buffer {
 public:
  // Throws kInvalid naming the argument, what is given and what is required: type, shape, C order, writable.
  Buffer(PyObject* object, const ArrayType& type, Access access);
  // One-dimensional and of any length.
  Buffer(PyObject* object, const char* name, const char* dtype);
  // bytes or bytes-like; throws kInvalid.
  Buffer(PyObject* object, const char* name);
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }
  std::span<const std::byte> bytes() const { return {data(), size()}; }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data()), size() / sizeof(T)};
  }

 private:
  Py_buffer view_;
};

// A scalar integer element from a Python or NumPy integer. Throws kInvalid where it does not fit `type`.
void store_integer(PyObject* value, const ArrayType& type, std::byte* to);

}  // namespace headrace::bindings
