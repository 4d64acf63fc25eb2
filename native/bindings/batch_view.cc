#include "bindings/batch_view.h"

#include <nanobind/nanobind.h>

#include <limits>
#include <vector>

#include "core/error.h"

namespace headrace::bindings {
namespace {

// B, from the first axis of the rewards.
std::size_t batch_size(PyObject* reward) {
  const auto length = PyObject_Size(reward);
  if (length < 0) PyErr_Clear();
  if (length < 1 || length > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorKind::kInvalid,
                "reward: an array of float32 with one dimension and at least one element required");
  }
  return static_cast<std::size_t>(length);
}

}  // namespace

BatchArrays::BatchArrays(const Signature& signature, const Objects& arrays) : signature_(signature) {
  signature.check();
  const std::size_t B = batch_size(arrays[3]);
  const auto stacked =
      signature.stack == 1 ? std::vector<std::size_t>{B} : std::vector<std::size_t>{B, signature.stack};
  const Field real{"float32", {}};
  const Field number{"uint64", {}};
  const std::array<ArrayType, 9> types = {
      ArrayType("observation", signature.observation, stacked),
      ArrayType("next_observation", signature.observation, stacked),
      ArrayType("action", signature.action, {B}),
      ArrayType("reward", real, {B}),
      ArrayType("discount", real, {B}),
      ArrayType("weight", real, {B}),
      ArrayType("probability", real, {B}),
      ArrayType("key", number, {B}),
      ArrayType("policy_version", number, {B}),
  };
  for (std::size_t i = 0; i < types.size(); ++i) {
    buffers_[i] = std::make_unique<Buffer>(arrays[i], types[i], Access::kWrite);
  }
  view_.size = static_cast<std::uint32_t>(B);
  view_.observation = buffers_[0]->data();
  view_.next_observation = buffers_[1]->data();
  view_.action = buffers_[2]->data();
  view_.reward = reinterpret_cast<float*>(buffers_[3]->data());
  view_.discount = reinterpret_cast<float*>(buffers_[4]->data());
  view_.weight = reinterpret_cast<float*>(buffers_[5]->data());
  view_.probability = reinterpret_cast<float*>(buffers_[6]->data());
  view_.key = reinterpret_cast<std::uint64_t*>(buffers_[7]->data());
  view_.policy_version = reinterpret_cast<std::uint64_t*>(buffers_[8]->data());
}

void BatchArrays::check(const Signature& signature) const {
  if (signature == signature_) return;
  throw Error(ErrorKind::kInvalid, "batch: arrays of " + signature_.encode() + " given, " + signature.encode() +
                                       " required; nothing is sampled");
}

}  // namespace headrace::bindings
