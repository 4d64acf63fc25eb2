#include "core/signature.h"

#include "core_fixtures.h"

namespace headrace {
namespace {

using fixtures::check_error;

TEST_CASE("signature: bytes of a row") {
  CHECK(Field{"uint8", {84, 84}}.bytes() == 7056);
  CHECK(Field{"float64", {3}}.bytes() == 24);
  CHECK(Field{"int64", {}}.bytes() == 8);
  check_error(ErrorKind::kInvalid, "object", [] { Field{"object", {}}.bytes(); });
}

TEST_CASE("signature: text and back") {
  const Signature atari{{"uint8", {84, 84}}, {"int64", {}}, 4};
  CHECK(atari.encode() == "observation=uint8[84,84];action=int64[];stack=4");
  CHECK(Signature::decode(atari.encode()) == atari);
  const Signature vectors{{"float32", {8}}, {"float32", {2}}, 1};
  CHECK(Signature::decode(vectors.encode()) == vectors);
}

TEST_CASE("signature: invalid values are refused, naming the field") {
  const auto rejects = [](const char* text, const char* field) {
    CAPTURE(text);
    check_error(ErrorKind::kInvalid, field, [&] { Signature::decode(text); });
  };
  rejects("", "observation");
  rejects("action=int64[];observation=uint8[1];stack=1", "observation");
  rejects("observation=uint8[84,84;action=int64[];stack=4", "observation");
  rejects("observation=uint8[84,];action=int64[];stack=4", "observation");
  rejects("observation=uint8[,84];action=int64[];stack=4", "observation");
  rejects("observation=uint8[-1];action=int64[];stack=4", "observation");
  rejects("observation=uint8[0];action=int64[];stack=4", "observation");
  rejects("observation=uint8[4294967295,4294967295];action=int64[];stack=4", "observation");
  rejects("observation=uint8[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1];action=int64[];stack=4", "observation");
  rejects("observation=text[1];action=int64[];stack=4", "dtype");
  rejects("observation=uint8[1];action=;stack=4", "action");
  rejects("observation=uint8[1];action=int64[];stack=0", "stack");
  rejects("observation=uint8[1];action=int64[];stack=65", "stack");
  rejects("observation=uint8[1];action=int64[];stack=4;more=1", "stack");
}

}  // namespace
}  // namespace headrace
