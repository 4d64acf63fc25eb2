// What one step of experience looks like: the element types and shapes that a table holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

// A NumPy element type by its name ("uint8", "float32", "int64", "bool", ...) and a shape; shape [] is a scalar.
struct Field {
  std::string dtype;
  std::vector<std::uint32_t> shape;

  std::size_t item_bytes() const;  // throws kInvalid for a dtype that is not in NumPy's fixed-size numeric list
  std::size_t bytes() const;       // of one row
  bool operator==(const Field&) const = default;
};

struct Signature {
  Field observation;  // one frame, without the stack axis
  Field action;
  std::uint32_t stack = 1;  // K: frames per observation

  // "observation=uint8[84,84];action=int64[];stack=4". decode() throws kInvalid and names the field.
  std::string encode() const;
  static Signature decode(std::string_view text);
  void check() const;  // sizes bounded: at most 16 dimensions, 1 GiB a row, 1 <= stack <= 64
  bool operator==(const Signature&) const = default;
};

}  // namespace headrace
