#include "wire/stats_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace headrace {
namespace {

void append_string(std::string& json, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += kHex[static_cast<unsigned char>(c) >> 4];
      json += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      json += c;
    }
  }
  json += '"';
}

void append_value(std::string& json, auto value) {
  if (!std::isfinite(static_cast<double>(value))) {
    json += "null";
    return;
  }
  std::array<char, 32> digits;
  json.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

// One JSON object, member by member.
class Object {
 public:
  explicit Object(std::string& json) : json_(json) { json_ += '{'; }
  ~Object() { json_ += '}'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  std::string& name(std::string_view name) {
    if (!first_) json_ += ", ";
    first_ = false;
    append_string(json_, name);
    return json_ += ": ";
  }
  void number(std::string_view name, auto value) { append_value(this->name(name), value); }

 private:
  std::string& json_;
  bool first_ = true;
};

void append_table(std::string& json, const TableStats& stats) {
  Object object(json);
  object.number("size", stats.size);
  object.number("capacity", stats.capacity);
  object.number("inserts", stats.inserts);
  object.number("samples", stats.samples);
  object.number("updates", stats.updates);
  object.number("dropped_updates", stats.dropped_updates);
  object.number("evicted", stats.evicted);
  object.number("chunks", stats.chunks);
  object.number("used_bytes", stats.used_bytes);
  object.number("capacity_bytes", stats.capacity_bytes);
  object.number("samples_per_insert", stats.samples_per_insert);
  object.number("insert_blocked_seconds", stats.insert_blocked_seconds);
  object.number("sample_blocked_seconds", stats.sample_blocked_seconds);
  object.number("max_priority", stats.max_priority);
  object.number("total_weight", stats.total_weight);
  object.number("recovered", stats.recovered);
}

}  // namespace

std::string stats_json(Server& server) {
  std::string json;
  {
    Object root(json);
    {
      Object tables(root.name("tables"));
      for (const auto& name : server.table_names()) append_table(tables.name(name), server.table(name)->stats());
    }
    Object parameters(root.name("parameters"));
    for (const auto& [name, blob] : server.parameters().list()) {
      Object entry(parameters.name(name));
      entry.number("version", blob->version);
      entry.number("bytes", blob->bytes.size());
    }
  }
  return json;
}

}  // namespace headrace
