#include "wire/token.h"

#include <doctest/doctest.h>

#include <string>

#include "wire_fixtures.h"

using namespace headrace;
using namespace headrace::testing;

namespace {

Bytes counted(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

Nonce nonce_of(int value) {
  Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

Proof from_hex(std::string_view text) {
  Proof proof;
  for (std::size_t i = 0; i < proof.size(); ++i) {
    proof[i] = static_cast<std::byte>(std::stoi(std::string(text.substr(2 * i, 2)), nullptr, 16));
  }
  return proof;
}

}  // namespace

// What Python's hmac gives: hmac.new(bytes(range(16)), b"headrace client" + b"\1" * 32 + b"\2" * 32, "sha256")
TEST_CASE("proofs are those that are documented") {
  const Token token(counted(16));
  const auto server = nonce_of(1);
  const auto client = nonce_of(2);
  const auto client_proof = token.client_proof(server, client);
  const auto server_proof = token.server_proof(client, server);
  CHECK(client_proof == from_hex("e2cf61a5036236df62f68065fbc8eb17a7ae7ff71597cbe5c880945a66d898a0"));
  CHECK(server_proof == from_hex("34fd8eeee06cc8ba64caba6db36df672a7d7747e320b2ef5c23d153ed3ea0455"));
  CHECK(token.client_proof(client, server) != client_proof);
  CHECK(Token(counted(17)).client_proof(server, client) != client_proof);
}

TEST_CASE("a token has 16 to 4096 bytes, and no message shows it") {
  CHECK_NOTHROW(Token(counted(16)));
  CHECK_NOTHROW(Token(counted(4096)));
  for (const std::string& secret : {std::string("fifteen letters"), std::string(4097, 's')}) {
    try {
      const Token token(as_bytes(secret));
      FAIL_CHECK("no error was thrown");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kInvalid);
      CHECK(std::string(error.what()) == "token of " + std::to_string(secret.size()) + " bytes: required 16 to 4096");
    }
  }
}

TEST_CASE("proofs are equal in every byte or not at all") {
  const auto proof = Token(counted(16)).client_proof(nonce_of(1), nonce_of(2));
  CHECK(equal_in_constant_time(proof, Proof(proof)));
  for (std::size_t i = 0; i < proof.size(); ++i) {
    for (const int bit : {1, 128}) {
      auto other = proof;
      other[i] ^= static_cast<std::byte>(bit);
      CHECK_FALSE(equal_in_constant_time(proof, other));
    }
  }
}
