#include "wire/sha256.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "wire/frame.h"

using namespace headrace;

namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const auto byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<int>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<int>(byte) & 15];
  }
  return text;
}

std::string hash_of(std::string_view text) { return hex(sha256({as_bytes(text)})); }

std::string mac_of(std::string_view key, std::string_view text) {
  return hex(hmac_sha256(as_bytes(key), {as_bytes(text)}));
}

}  // namespace

TEST_CASE("SHA-256 of the examples of FIPS 180-4") {
  CHECK(hash_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 where the padding takes another block, or nearly") {
  const std::vector<std::pair<std::size_t, const char*>> expected = {
      {55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
      {56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
      {57, "ae14a2563ccf969d99aca69ce6bb74981f734bbf9f655f73b8f06db68cab5217"},
      {63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
      {64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
      {65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
      {119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
      {120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
  };
  for (const auto& [size, digest] : expected) {
    CAPTURE(size);
    CHECK(hash_of(std::string(size, 'x')) == digest);
  }
}

TEST_CASE("SHA-256 of parts equals that of the concatenation") {
  const std::string text(200, 'x');
  const auto whole = hash_of(text);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const auto bytes = as_bytes(text);
    CHECK(hex(sha256({bytes.first(cut), bytes.subspan(cut)})) == whole);
  }
}

TEST_CASE("HMAC-SHA-256 of the test cases of RFC 4231") {
  const std::string counted = [] {
    std::string key;
    for (char byte = 1; byte <= 25; ++byte) key += byte;
    return key;
  }();
  CHECK(mac_of(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(mac_of("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(mac_of(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(mac_of(counted, std::string(50, '\xcd')) == "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  CHECK(mac_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(mac_of(std::string(131, '\xaa'),
               "This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
               "be hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}
