// Table: its settings, checked and as text.
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/table_impl.h"

namespace headrace {
namespace {

constexpr double kMaxPriorityExponent = 4;  // beyond, weights of float priorities overflow their sums
constexpr std::uint64_t kMaxCapacity = std::uint64_t{1} << 40;
constexpr std::uint64_t kMaxCapacityBytes = std::uint64_t{1} << 46;  // of the 47 bits that addresses have
constexpr std::string_view kPrioritized = "prioritized", kUniform = "uniform";

void require(bool holds, const char* name, const std::string& value, const std::string& required) {
  if (holds) return;
  throw Error(ErrorKind::kInvalid,
              std::string(name) + " is " + value + ", but it must be " + required + "; no table can be made of it");
}

// Bytes for `capacity` transitions. Frames dominate large chunks, where 50 steps are the rule and memory is dear.
// Small ones get room for short episodes, whose chunks carry a larger share of history and lookahead.
std::uint64_t default_bytes(const TableOptions& options) {
  const Signature& signature = options.signature;
  constexpr std::size_t kSmallRow = 1024;
  constexpr std::uint32_t kLookahead = 5;
  const std::uint32_t steps = signature.observation.bytes() <= kSmallRow ? 8 : 50;
  const auto bytes_of = [&](std::uint32_t length) -> std::uint64_t {
    return ChunkLayout::of(signature, length, length + kLookahead + signature.stack - 1).bytes + Arena::kAlignment;
  };
  const std::uint64_t chunks = (options.capacity + steps - 1) / steps;
  std::uint64_t bytes = 0;
  const bool overflows = __builtin_mul_overflow(chunks, bytes_of(steps), &bytes) ||
                         __builtin_add_overflow(bytes, 2 * bytes_of(50), &bytes);
  return overflows ? std::numeric_limits<std::uint64_t>::max() : bytes;
}

std::string text_of(double value) {  // the shortest that reads back as the same number
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

[[noreturn]] void corrupt(std::string_view name, std::string_view text, const std::string& required) {
  throw Error(ErrorKind::kCorrupt, "table options: " + std::string(name) + " is \"" + std::string(text.substr(0, 200)) +
                                       "\", but it must be " + required + "; no table is made of them");
}

template <class T>
T decode_number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) corrupt(name, text, "a number");
  return value;
}

Sampler decode_sampler(std::string_view text) {
  if (text == kPrioritized) return Sampler::kPrioritized;
  if (text == kUniform) return Sampler::kUniform;
  corrupt("sampler", text, "prioritized or uniform");
}

}  // namespace

TableOptions checked(TableOptions options) {
  options.signature.check();
  require(options.capacity >= 1 && options.capacity <= kMaxCapacity, "capacity", std::to_string(options.capacity),
          "from 1 to " + std::to_string(kMaxCapacity) + " transitions");
  if (options.capacity_bytes == 0) options.capacity_bytes = default_bytes(options);
  const std::size_t smallest = ChunkLayout::of(options.signature, 1, 2).bytes;
  require(options.capacity_bytes >= smallest, "capacity_bytes", std::to_string(options.capacity_bytes),
          "at least " + std::to_string(smallest) + ", the smallest chunk of " + options.signature.encode());
  require(options.capacity_bytes <= kMaxCapacityBytes, "capacity_bytes", std::to_string(options.capacity_bytes),
          "at most " + std::to_string(kMaxCapacityBytes) + " (where it is not set it follows from capacity)");
  require(options.priority_exponent >= 0 && options.priority_exponent <= kMaxPriorityExponent, "priority_exponent",
          std::to_string(options.priority_exponent), "in [0, 4]");
  require(options.limiter.min_size <= options.capacity, "min_size", std::to_string(options.limiter.min_size),
          "at most capacity = " + std::to_string(options.capacity));
  RateLimiter{options.limiter};  // has its own to say
  return options;
}

std::uint64_t Table::memory_bytes(const TableOptions& options) {
  const TableOptions full = checked(options);
  const std::uint64_t tree = full.sampler == Sampler::kPrioritized ? SumTree::memory_bytes(full.capacity) : 0;
  return full.capacity_bytes + full.capacity * sizeof(std::size_t) + tree + MaxTree::memory_bytes(full.capacity) +
         writers_limit(full.capacity) * Writers::kBytesEach;
}

std::string TableOptions::encode() const {
  std::string text = "capacity=" + std::to_string(capacity);
  text += ";capacity_bytes=" + std::to_string(capacity_bytes);
  text += ";sampler=";
  text += sampler == Sampler::kPrioritized ? kPrioritized : kUniform;
  text += ";priority_exponent=" + text_of(priority_exponent);
  text += ";samples_per_insert=" + text_of(limiter.samples_per_insert);
  text += ";tolerance=" + text_of(limiter.tolerance);
  text += ";min_size=" + std::to_string(limiter.min_size);
  text += ";seed=" + std::to_string(seed);
  text += '\n';
  text += signature.encode();
  return text;
}

TableOptions TableOptions::decode(std::string_view text) {
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) corrupt("text", text, "two lines, of settings and of the signature");
  std::string_view rest = text.substr(0, line);
  const auto take = [&](std::string_view name) {
    if (!rest.starts_with(name) || rest.substr(name.size(), 1) != "=") corrupt(name, rest, "next");
    rest.remove_prefix(name.size() + 1);
    const std::size_t end = rest.find(';');
    const std::string_view value = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return value;
  };
  TableOptions options;
  options.capacity = decode_number<std::uint64_t>("capacity", take("capacity"));
  options.capacity_bytes = decode_number<std::uint64_t>("capacity_bytes", take("capacity_bytes"));
  options.sampler = decode_sampler(take("sampler"));
  options.priority_exponent = decode_number<double>("priority_exponent", take("priority_exponent"));
  options.limiter.samples_per_insert = decode_number<double>("samples_per_insert", take("samples_per_insert"));
  options.limiter.tolerance = decode_number<double>("tolerance", take("tolerance"));
  options.limiter.min_size = decode_number<std::uint64_t>("min_size", take("min_size"));
  options.seed = decode_number<std::uint64_t>("seed", take("seed"));
  if (!rest.empty()) corrupt("seed", rest, "the end of the first line");
  try {
    options.signature = Signature::decode(text.substr(line + 1));
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, std::string("table options: ") + error.what());
  }
  return options;
}

}  // namespace headrace
