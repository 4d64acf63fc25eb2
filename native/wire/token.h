// The secret that a server may ask for, and the proofs that are sent instead of it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace headrace {

inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kProofBytes = 32;
using Nonce = std::array<std::byte, kNonceBytes>;
using Proof = std::array<std::byte, kProofBytes>;

class Token {
 public:
  static constexpr std::size_t kMinBytes = 16;
  static constexpr std::size_t kMaxBytes = 4096;

  // kInvalid if it is shorter or longer; the message does not show it.
  explicit Token(std::span<const std::byte> secret);

  Proof client_proof(const Nonce& server, const Nonce& client) const;
  Proof server_proof(const Nonce& client, const Nonce& server) const;

 private:
  std::vector<std::byte> secret_;
};

bool equal_in_constant_time(const Proof& left, const Proof& right);

}  // namespace headrace
