// SHA-256 (FIPS 180-4) and HMAC over it (RFC 2104): one proof for each connection, so plain rather than fast.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace headrace {

using Digest = std::array<std::byte, 32>;

// Of the parts, one after another.
Digest sha256(std::initializer_list<std::span<const std::byte>> parts);
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts);

}  // namespace headrace
