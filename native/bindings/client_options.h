// Arguments of everything that connects to a server, as core's options.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "bindings/calls.h"
#include "core/error.h"
#include "io/client.h"
#include "wire/frame.h"
#include "wire/token.h"

namespace headrace::bindings {

inline std::optional<Token> token_of(const std::optional<nb::bytes>& secret) {
  if (!secret) return std::nullopt;
  return Token(as_bytes({secret->c_str(), secret->size()}));
}

inline std::chrono::milliseconds duration(const char* name, double seconds) {
  constexpr double kForever = 1e9;  // seconds; 32 years
  if (!(seconds >= 0)) {
    throw Error(ErrorKind::kInvalid,
                std::string(name) + ": " + std::to_string(seconds) + " given, 0 or more seconds required");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(1000 * std::min(seconds, kForever))));
}

inline ClientOptions client_options(std::string address, double timeout_seconds, const std::optional<nb::bytes>& token,
                                    double request_timeout_seconds, double reconnect_seconds) {
  ClientOptions options;
  options.address = std::move(address);
  options.token = token_of(token);
  options.connect_timeout = duration("timeout_seconds", timeout_seconds);
  options.request_timeout = duration("request_timeout_seconds", request_timeout_seconds);
  options.reconnect_timeout = duration("reconnect_seconds", reconnect_seconds);
  options.interrupt = check_signals;
  return options;
}

// Calls `define(function-arguments...)` with the annotations for client_options(), after the address.
auto with_client_arguments(auto define) {
  using namespace nanobind::literals;
  return define("timeout_seconds"_a = 10.0, "token"_a = nb::none(), "request_timeout_seconds"_a = 30.0,
                "reconnect_seconds"_a = 0.0);
}

}  // namespace headrace::bindings
