#include "bypass/command.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "wire/frame.h"

namespace headrace::bypass {
namespace {

constexpr std::streamsize kMostTokenFileBytes = 8192;
constexpr std::string_view kWhiteSpace = " \t\n\r\v\f";

[[noreturn]] void refuse(std::string_view option, std::string_view value, std::string_view required) {
  throw Error(ErrorKind::kInvalid,
              std::string(option) + " is " + std::string(value) + "; it must be " + std::string(required));
}

template <typename T>
T number(std::string_view option, const std::string& text, T least, T most, std::string_view required) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    refuse(option, text, required);
  }
  return value;
}

constexpr std::size_t kMostConnections = 4096;

Token read_token(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostTokenFileBytes + 1, '\0');
  file.read(text.data(), kMostTokenFileBytes + 1);
  if (!file.eof()) refuse("--token-file", path, "a file of at most 8192 bytes that can be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.erase(0, text.find_first_not_of(kWhiteSpace));
  text.erase(text.find_last_not_of(kWhiteSpace) + 1);
  return Token(as_bytes(text));
}

Polling polling_of(const std::string& text) {
  if (text == "always") return Polling::kAlways;
  if (text == "adaptive") return Polling::kAdaptive;
  refuse("--poll", text, "always or adaptive");
}

}  // namespace

Command Command::parse(const std::vector<std::string>& words) {
  Command command;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto& option = words[i];
    if (i + 1 == words.size()) throw Error(ErrorKind::kInvalid, option + ": a value is required after it");
    const auto& value = words[i + 1];
    if (option == "--listen" && value.starts_with(PortAddress::kScheme)) {
      command.ports.push_back(PortAddress::parse(value));
    } else if (option == "--listen") {
      command.sockets.push_back(value);
    } else if (option == "--data") {
      command.server.data = value;
    } else if (option == "--memory") {
      command.server.memory_bytes =
          number<std::uint64_t>(option, value, 1, MemoryBudget::kUnlimited, "a number of bytes above 0");
    } else if (option == "--shard-save-period") {
      const double seconds = number<double>(option, value, 1e-3, 86400, "a number of seconds from 0.001 to 86400");
      command.server.shard_save_period = std::chrono::milliseconds(std::llround(1000 * seconds));
    } else if (option == "--max-connections") {
      command.max_connections = number<std::size_t>(option, value, 1, kMostConnections, "a number from 1 to 4096");
    } else if (option == "--token-file") {
      command.token = read_token(value);
    } else if (option == "--poll") {
      command.polling = polling_of(value);
    } else {
      throw Error(ErrorKind::kInvalid, option + ": there is no such option");
    }
  }
  if (command.ports.empty()) throw Error(ErrorKind::kInvalid, "--listen dpdk:KIND,... is required at least once");
  return command;
}

}  // namespace headrace::bypass
