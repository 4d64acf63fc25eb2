#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/bind_table.h"
#include "bindings/calls.h"
#include "bindings/client_options.h"
#include "bindings/embedded_server.h"
#include "bindings/python_lock.h"
#include "wire/stats_json.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

void make_server(EmbeddedServer* self, std::string data, std::uint64_t memory_bytes,
                 const std::optional<nb::bytes>& token, double shard_save_seconds, std::size_t max_connections) {
  ServerOptions server;
  server.data = std::move(data);
  if (memory_bytes != 0) server.memory_bytes = memory_bytes;
  server.shard_save_period = duration("shard_save_seconds", shard_save_seconds);
  LoopOptions loop;
  loop.token = token_of(token);
  loop.max_connections = max_connections;
  const Released release;  // tables of many gigabytes may be taken up
  new (self) EmbeddedServer(std::move(server), std::move(loop));
}

std::shared_ptr<Table> add_table(EmbeddedServer& self, const std::string& name, const Signature& signature,
                                 std::uint64_t capacity, std::uint64_t capacity_bytes, const std::string& sampler,
                                 double priority_exponent, double samples_per_insert, double limiter_tolerance,
                                 std::uint64_t min_size, std::uint64_t seed, std::string path) {
  auto options = table_options(signature, capacity, capacity_bytes, sampler, priority_exponent, samples_per_insert,
                               limiter_tolerance, min_size, seed, std::move(path));
  const Released release;
  return self.core().add_table(name, std::move(options));
}

std::shared_ptr<Table> open_table(EmbeddedServer& self, const std::string& name, const Signature& signature,
                                  std::uint64_t capacity, std::uint64_t capacity_bytes, const std::string& sampler,
                                  double priority_exponent, double samples_per_insert, double limiter_tolerance,
                                  std::uint64_t min_size, std::uint64_t seed, bool fresh) {
  auto options = table_options(signature, capacity, capacity_bytes, sampler, priority_exponent, samples_per_insert,
                               limiter_tolerance, min_size, seed);
  const Released release;
  return self.core().open_table(name, std::move(options), fresh);
}

std::uint64_t publish(EmbeddedServer& self, const std::string& name, nb::handle data, std::uint64_t version) {
  const Buffer blob(data.ptr(), "data");
  const Released release;
  return self.core().parameters().publish(name, version, blob.bytes());
}

std::optional<nb::tuple> fetch(EmbeddedServer& self, const std::string& name, std::uint64_t newer_than) {
  const auto blob = self.core().parameters().fetch(name, newer_than);
  if (!blob) return std::nullopt;
  return nb::make_tuple(blob->version, to_bytes(blob->bytes));
}

void put(EmbeddedServer& self, const std::string& mailbox, nb::handle message) {
  const Buffer bytes(message.ptr(), "message");
  const Released release;
  self.core().mailbox(mailbox)->put(bytes.bytes());
}

nb::list drain(EmbeddedServer& self, const std::string& mailbox) {
  const auto found = self.core().find_mailbox(mailbox);
  return found ? to_list(found->drain()) : nb::list();
}

nb::object stats(EmbeddedServer& self) {
  const auto text = [&] {
    const Released release;
    return stats_json(self.core());
  }();
  return from_json(text);
}

}  // namespace

void bind_server(nb::module_& module) {
  nb::class_<EmbeddedServer> server(module, "Server",
                                    "Tables, parameters and mailboxes under names, served over sockets.");
  server.def("__init__", &make_server, nb::kw_only(), "data"_a = "", "memory_bytes"_a = 0, "token"_a = nb::none(),
             "shard_save_seconds"_a = 1.0, "max_connections"_a = LoopOptions().max_connections);
  with_table_arguments([&](const auto&... arguments) {
    server.def("add_table", &add_table, "name"_a, arguments..., "path"_a = "");
    server.def("open_table", &open_table, "name"_a, arguments..., "fresh"_a);
  });
  server.def_prop_ro("instance", [](EmbeddedServer& self) { return self.core().instance(); })
      .def("notices", [](EmbeddedServer& self) { return self.core().notices(); })
      .def(
          "table", [](EmbeddedServer& self, const std::string& name) { return self.core().table(name); }, "name"_a)
      .def("table_names", [](EmbeddedServer& self) { return self.core().table_names(); })
      .def("publish", &publish, "name"_a, "data"_a, "version"_a = 0)
      .def("fetch", &fetch, "name"_a, "newer_than"_a = 0)
      .def("put", &put, "mailbox"_a, "message"_a)
      .def("drain", &drain, "mailbox"_a)
      .def(
          "drop", [](EmbeddedServer& self, const std::string& prefix) { return self.core().drop(prefix); }, "prefix"_a,
          nb::call_guard<Released>())
      .def("stats", &stats)
      .def(
          "listen", [](EmbeddedServer& self, const std::string& address) { return self.loop().listen(address); },
          "address"_a, nb::call_guard<Released>())
      .def("connections", [](EmbeddedServer& self) { return self.loop().connections(); })
      .def("disconnect", &EmbeddedServer::disconnect)
      .def("close", &EmbeddedServer::close);
}

}  // namespace headrace::bindings
