#include "core/signature.h"

#include <array>
#include <charconv>
#include <utility>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::size_t kMaxRowBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxDimensions = 16;
constexpr std::uint32_t kMaxStack = 64;

constexpr std::array<std::pair<std::string_view, std::size_t>, 12> kDtypes = {{
    {"bool", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint8", 1},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
}};

std::string encode_field(const Field& field) {
  std::string text = field.dtype + "[";
  for (const std::uint32_t length : field.shape) {
    if (text.back() != '[') text += ',';
    text += std::to_string(length);
  }
  text += ']';
  return text;
}

[[noreturn]] void reject(std::string_view name, std::string_view text, std::string_view required) {
  throw Error(ErrorKind::kInvalid, "signature." + std::string(name) + ": \"" + std::string(text.substr(0, 200)) +
                                       "\" is not " + std::string(required) + ", so no table can be laid out from it");
}

std::uint32_t decode_number(std::string_view name, std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) reject(name, text, "a whole number of 32 bits");
  return value;
}

Field decode_field(std::string_view name, std::string_view text) {
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']')
    reject(name, text, "a dtype and a shape such as float32[8]");
  Field field{std::string(text.substr(0, open)), {}};
  std::string_view shape = text.substr(open + 1, text.size() - open - 2);
  while (!shape.empty()) {
    const std::size_t comma = shape.find(',');
    field.shape.push_back(decode_number(name, shape.substr(0, comma)));
    if (comma == std::string_view::npos) break;
    shape.remove_prefix(comma + 1);
    if (shape.empty()) reject(name, text, "a shape without a comma at its end");
    if (field.shape.size() > kMaxDimensions) reject(name, text, "a shape of at most 16 dimensions");
  }
  return field;
}

void check_field(std::string_view name, const Field& field) {
  const std::string text = encode_field(field);
  if (field.shape.size() > kMaxDimensions) reject(name, text, "a shape of at most 16 dimensions");
  std::size_t bytes = field.item_bytes();
  for (const std::uint32_t length : field.shape) {
    if (length == 0) reject(name, text, "a shape whose every dimension is at least 1");
    if (length > kMaxRowBytes / bytes) reject(name, text, "at most 1 GiB a row");
    bytes *= length;
  }
}

}  // namespace

std::size_t Field::item_bytes() const {
  for (const auto& [name, bytes] : kDtypes) {
    if (name == dtype) return bytes;
  }
  reject("dtype", dtype, "one of bool, int8..int64, uint8..uint64, float16..float64");
}

std::size_t Field::bytes() const {
  std::size_t bytes = item_bytes();
  for (const std::uint32_t length : shape) bytes *= length;
  return bytes;
}

std::string Signature::encode() const {
  std::string text = "observation=";
  text += encode_field(observation);
  text += ";action=";
  text += encode_field(action);
  text += ";stack=";
  text += std::to_string(stack);
  return text;
}

Signature Signature::decode(std::string_view text) {
  Signature signature;
  std::string_view rest = text;
  const auto take = [&](std::string_view name) {
    if (!rest.starts_with(name) || rest.substr(name.size(), 1) != "=") {
      reject(name, text, "of the form observation=DTYPE[SHAPE];action=DTYPE[SHAPE];stack=K");
    }
    rest.remove_prefix(name.size() + 1);
    const std::size_t end = rest.find(';');
    const std::string_view value = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return value;
  };
  signature.observation = decode_field("observation", take("observation"));
  signature.action = decode_field("action", take("action"));
  signature.stack = decode_number("stack", take("stack"));
  if (!rest.empty()) reject("stack", rest, "the end of the signature");
  signature.check();
  return signature;
}

void Signature::check() const {
  check_field("observation", observation);
  check_field("action", action);
  if (stack < 1 || stack > kMaxStack) reject("stack", std::to_string(stack), "from 1 to 64");
}

}  // namespace headrace
