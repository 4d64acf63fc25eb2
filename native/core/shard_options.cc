#include "core/shard_options.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "core/error.h"

namespace headrace {
namespace {

constexpr std::array<std::string_view, 4> kPolicies = {"accept", "drop", "scale", "compensate"};

void require(bool holds, const char* name, const std::string& value, const std::string& required) {
  if (holds) return;
  throw Error(ErrorKind::kInvalid,
              std::string(name) + " is " + value + ", but it must be " + required + "; no shard can be made of it");
}

std::string text_of(double value) {  // the shortest that reads back as the same number
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

[[noreturn]] void corrupt(std::string_view name, std::string_view text, const std::string& required) {
  throw Error(ErrorKind::kCorrupt, "shard options: " + std::string(name) + " is \"" + std::string(text.substr(0, 200)) +
                                       "\", but it must be " + required + "; no shard is made of them");
}

template <class T>
T decode_number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) corrupt(name, text, "a number");
  return value;
}

}  // namespace

void ShardOptions::check() const {
  require(size >= 1 && size <= kMaxSize, "size", std::to_string(size),
          "from 1 to " + std::to_string(kMaxSize) + " parameters");
  require(std::isfinite(compensation) && compensation >= 0, "compensation", text_of(compensation), "0 or more");
  optimizer.check();
}

StalenessPolicy ShardOptions::policy_of(std::string_view name) {
  for (std::size_t i = 0; i < kPolicies.size(); ++i) {
    if (kPolicies[i] == name) return static_cast<StalenessPolicy>(i);
  }
  throw Error(ErrorKind::kInvalid, "staleness policy is \"" + std::string(name.substr(0, 200)) +
                                       "\", but it must be accept, drop, scale or compensate");
}

std::string_view ShardOptions::name_of(StalenessPolicy policy) { return kPolicies[static_cast<std::size_t>(policy)]; }

std::string ShardOptions::encode() const {
  std::string text = "size=" + std::to_string(size);
  text += ";policy=";
  text += name_of(policy);
  text += ";max_staleness=" + std::to_string(max_staleness);
  text += ";compensation=" + text_of(compensation);
  text += '\n';
  text += optimizer.encode();
  return text;
}

ShardOptions ShardOptions::decode(std::string_view text) {
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) corrupt("text", text, "two lines, of settings and of the optimizer");
  std::string_view rest = text.substr(0, line);
  const auto take = [&](std::string_view name) {
    if (!rest.starts_with(name) || rest.substr(name.size(), 1) != "=") corrupt(name, rest, "next");
    rest.remove_prefix(name.size() + 1);
    const std::size_t end = rest.find(';');
    const std::string_view value = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    return value;
  };
  ShardOptions options;
  options.size = decode_number<std::uint64_t>("size", take("size"));
  options.policy = policy_of(take("policy"));
  options.max_staleness = decode_number<std::uint64_t>("max_staleness", take("max_staleness"));
  options.compensation = decode_number<double>("compensation", take("compensation"));
  if (!rest.empty()) corrupt("compensation", rest, "the end of the first line");
  options.optimizer = OptimizerOptions::decode(text.substr(line + 1));
  options.check();
  return options;
}

}  // namespace headrace
