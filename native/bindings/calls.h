// Shared by all bindings: waits that handle signals, conversion of bytes and errors.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/python_lock.h"
#include "core/error.h"
#include "core/table.h"

namespace headrace::bindings {

namespace nb = nanobind;

inline constexpr auto kSlice = std::chrono::milliseconds(100);  // of a wait, between two checks for signals

void bind_errors(nb::module_& module);

inline Deadline deadline_after(std::optional<double> timeout_seconds) {
  constexpr double kForever = 1e9;  // seconds; 32 years
  if (timeout_seconds && std::isnan(*timeout_seconds)) {
    throw Error(ErrorKind::kInvalid, "timeout_seconds is nan; it must be a number");
  }
  if (!timeout_seconds || *timeout_seconds >= kForever) return never();
  const auto wait = std::chrono::duration<double>(std::max(*timeout_seconds, 0.0));
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<Deadline::duration>(wait);
}

// Runs `attempt(slice deadline)` without the GIL until it returns a value or the deadline passes.
template <typename Attempt>
auto wait_in_slices(std::optional<double> timeout_seconds, Attempt attempt) {
  const Deadline deadline = deadline_after(timeout_seconds);
  const Released release;
  for (;;) {
    const auto result = attempt(std::min(deadline, std::chrono::steady_clock::now() + kSlice));
    if (result || std::chrono::steady_clock::now() >= deadline) return result;
    check_signals();
  }
}

nb::bytes new_bytes(std::size_t size);                 // whose contents are to be written next
nb::bytes to_bytes(std::span<const std::byte> bytes);  // one copy, without the GIL where it is long
nb::dict from_json(const std::string& text);
nb::list to_list(std::span<const std::vector<std::byte>> messages);

}  // namespace headrace::bindings
