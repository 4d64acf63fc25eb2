#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/batch_view.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "io/client.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

using Released = nb::gil_scoped_release;

std::optional<std::chrono::milliseconds> milliseconds(std::optional<double> seconds) {
  constexpr double kForever = 1e9;  // seconds; 32 years
  if (!seconds || *seconds >= kForever) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(1000 * std::max(*seconds, 0.0))));
}

void connect(Client* self, const std::string& address, double timeout_seconds) {
  const Released release;
  new (self) Client(address, deadline_after(timeout_seconds), check_signals);
}

Signature signature(Client& client, const std::string& table) {
  const Released release;
  return client.signature(table);
}

std::uint64_t insert(Client& client, const std::string& table, nb::handle chunk) {
  const Buffer bytes(chunk.ptr(), "chunk");
  return refusing_chunks([&] {
    const Released release;
    return client.insert(table, bytes.bytes());
  });
}

bool sample_into(Client& client, const std::string& table, const BatchArrays& batch, double importance_exponent,
                 std::optional<double> timeout_seconds) {
  const Released release;
  return client.sample(table, batch.signature(), batch.view(), importance_exponent, milliseconds(timeout_seconds));
}

std::uint64_t update_priorities(Client& client, const std::string& table, nb::handle key, nb::handle priority) {
  const Buffer keys(key.ptr(), "key", "uint64");
  const Buffer priorities(priority.ptr(), "priority", "float32");
  const Released release;
  return client.update_priorities(table, keys.as<std::uint64_t>(), priorities.as<float>());
}

std::uint64_t publish(Client& client, const std::string& name, nb::handle data, std::uint64_t version) {
  const Buffer bytes(data.ptr(), "data");
  const Released release;
  return client.publish(name, version, bytes.bytes());
}

std::optional<nb::tuple> fetch(Client& client, const std::string& name, std::uint64_t newer_than) {
  const auto blob = [&] {
    const Released release;
    return client.fetch(name, newer_than);
  }();
  if (!blob) return std::nullopt;
  return nb::make_tuple(blob->first, to_bytes(blob->second));
}

void put(Client& client, const std::string& mailbox, nb::handle message) {
  const Buffer bytes(message.ptr(), "message");
  const Released release;
  client.put(mailbox, bytes.bytes());
}

nb::list drain(Client& client, const std::string& mailbox) {
  const auto messages = [&] {
    const Released release;
    return client.drain(mailbox);
  }();
  return to_list(messages);
}

nb::object stats(Client& client) {
  const auto text = [&] {
    const Released release;
    return client.stats();
  }();
  return nb::module_::import_("json").attr("loads")(text);
}

}  // namespace

void bind_client(nb::module_& module) {
  nb::class_<Client>(module, "Client", "A blocking connection to a server; calls from several threads queue.")
      .def("__init__", &connect, "address"_a, "timeout_seconds"_a = 10.0)
      .def("signature", &signature, "table"_a)
      .def("insert", &insert, "table"_a, "chunk"_a)
      .def("sample_into", &sample_into, "table"_a, "batch"_a, "importance_exponent"_a, "timeout_seconds"_a = nb::none())
      .def("update_priorities", &update_priorities, "table"_a, "key"_a, "priority"_a)
      .def("publish", &publish, "name"_a, "data"_a, "version"_a = 0)
      .def("fetch", &fetch, "name"_a, "newer_than"_a = 0)
      .def("put", &put, "mailbox"_a, "message"_a)
      .def("drain", &drain, "mailbox"_a)
      .def("stats", &stats)
      .def("close", &Client::close);
}

}  // namespace headrace::bindings
