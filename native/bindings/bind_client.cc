#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/batch_view.h"
#include "bindings/bind.h"
#include "bindings/bind_table.h"
#include "bindings/calls.h"
#include "bindings/client_options.h"
#include "bindings/python_lock.h"
#include "io/client.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

std::optional<std::chrono::milliseconds> milliseconds(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  return duration("timeout_seconds", std::max(*seconds, 0.0));
}

void connect(Client* self, std::string address, double timeout_seconds, const std::optional<nb::bytes>& token,
             double request_timeout_seconds, double reconnect_seconds) {
  auto options = client_options(std::move(address), timeout_seconds, token, request_timeout_seconds, reconnect_seconds);
  const Released release;
  new (self) Client(std::move(options));
}

Signature signature(Client& client, const std::string& table) {
  const Released release;
  return client.signature(table);
}

// The bytes of Python's objects, which stay where they are.
struct Chunks {
  explicit Chunks(const nb::args& chunks) {
    for (const nb::handle chunk : chunks) parts.push_back(held.emplace_back(chunk.ptr(), "chunk").bytes());
  }
  std::deque<Buffer> held;
  std::vector<std::span<const std::byte>> parts;
};

std::uint64_t insert(Client& client, const std::string& table, const nb::args& chunks) {
  const Chunks given(chunks);
  const Released release;
  return client.insert(table, given.parts);
}

bool post_chunks(Client& client, const std::string& table, const nb::args& chunks, bool wait) {
  const Chunks given(chunks);
  const Released release;
  return client.post_chunks(table, given.parts, wait);
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

void post_priorities(Client& client, const std::string& table, nb::handle key, nb::handle priority) {
  const Buffer keys(key.ptr(), "key", "uint64");
  const Buffer priorities(priority.ptr(), "priority", "float32");
  const Released release;
  client.post_priorities(table, keys.as<std::uint64_t>(), priorities.as<float>());
}

std::uint64_t publish(Client& client, const std::string& name, nb::handle data, std::uint64_t version) {
  const Buffer bytes(data.ptr(), "data");
  const Released release;
  return client.publish(name, version, bytes.bytes());
}

std::optional<nb::tuple> fetch(Client& client, const std::string& name, std::uint64_t newer_than) {
  nb::object blob;  // received into where it stays
  const auto allocate = [&blob](std::size_t size) {
    std::byte* memory = nullptr;
    with_lock([&] {
      blob = new_bytes(size);
      memory = reinterpret_cast<std::byte*>(PyBytes_AsString(blob.ptr()));
    });
    return memory;
  };
  const auto version = [&] {
    const Released release;
    return client.fetch(name, newer_than, allocate);
  }();
  if (!version) return std::nullopt;
  return nb::make_tuple(*version, blob);
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
  return from_json(text);
}

std::uint64_t open_table(Client& client, const std::string& name, const Signature& signature, std::uint64_t capacity,
                         std::uint64_t capacity_bytes, const std::string& sampler, double priority_exponent,
                         double samples_per_insert, double limiter_tolerance, std::uint64_t min_size,
                         std::uint64_t seed, bool fresh) {
  const auto options = table_options(signature, capacity, capacity_bytes, sampler, priority_exponent,
                                     samples_per_insert, limiter_tolerance, min_size, seed);
  const Released release;
  return client.open_table(name, options, fresh);
}

void claim(Client& client, const std::string& name, std::uint64_t owner, std::uint64_t run, double keep_seconds) {
  const auto keep = duration("keep_seconds", keep_seconds);
  const Released release;
  client.claim(name, owner, run, keep);
}

void set_state(Client& client, const std::string& table, const std::string& state) {
  const auto value = table_state(state);
  const Released release;
  client.set_state(table, value);
}

}  // namespace

void bind_client(nb::module_& module) {
  nb::class_<Client> client(module, "Client", "A blocking connection to a server; calls from several threads queue.");
  with_client_arguments([&](const auto& timeout, const auto&... others) {
    client.def("__init__", &connect, "address"_a, timeout, nb::kw_only(), others...);
  });
  with_table_arguments(
      [&](const auto&... arguments) { client.def("open_table", &open_table, "name"_a, arguments..., "fresh"_a); });
  client.def_prop_ro("instance", &Client::instance)
      .def_prop_ro("reconnections", &Client::reconnections)
      .def("signature", &signature, "table"_a)
      .def("insert", &insert, "table"_a, "chunks"_a)
      .def("post_chunks", &post_chunks, "table"_a, "chunks"_a, "wait"_a = true)
      .def("sample_into", &sample_into, "table"_a, "batch"_a, "importance_exponent"_a, "timeout_seconds"_a = nb::none())
      .def("update_priorities", &update_priorities, "table"_a, "key"_a, "priority"_a)
      .def("post_priorities", &post_priorities, "table"_a, "key"_a, "priority"_a)
      .def("settle", &Client::settle, nb::call_guard<Released>())
      .def("publish", &publish, "name"_a, "data"_a, "version"_a = 0)
      .def("fetch", &fetch, "name"_a, "newer_than"_a = 0)
      .def("put", &put, "mailbox"_a, "message"_a)
      .def("drain", &drain, "mailbox"_a)
      .def("stats", &stats)
      .def("set_state", &set_state, "table"_a, "state"_a)
      .def("drop", &Client::drop, "prefix"_a, nb::call_guard<Released>())
      .def("claim", &claim, "name"_a, "owner"_a, "run"_a = 0, "keep_seconds"_a = 0.0)
      .def("close", &Client::close, nb::call_guard<Released>());
}

}  // namespace headrace::bindings
