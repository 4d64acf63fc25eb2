#include "wire/token.h"

#include <string_view>

#include "core/error.h"
#include "wire/frame.h"
#include "wire/sha256.h"

namespace headrace {

Token::Token(std::span<const std::byte> secret) : secret_(secret.begin(), secret.end()) {
  if (secret.size() < kMinBytes || secret.size() > kMaxBytes) {
    throw Error(ErrorKind::kInvalid, "token of " + std::to_string(secret.size()) + " bytes: required " +
                                         std::to_string(kMinBytes) + " to " + std::to_string(kMaxBytes));
  }
}

Proof Token::client_proof(const Nonce& server, const Nonce& client) const {
  return hmac_sha256(secret_, {as_bytes("headrace client"), server, client});
}

Proof Token::server_proof(const Nonce& client, const Nonce& server) const {
  return hmac_sha256(secret_, {as_bytes("headrace server"), client, server});
}

bool equal_in_constant_time(const Proof& left, const Proof& right) {
  // Volatile, so that no compiler may leave the loop at the first difference.
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    difference = difference | std::to_integer<unsigned char>(left[i] ^ right[i]);
  }
  return difference == 0;
}

}  // namespace headrace
