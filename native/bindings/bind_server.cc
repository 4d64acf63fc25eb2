#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/bind_table.h"
#include "bindings/calls.h"
#include "core/server.h"
#include "io/loop.h"
#include "wire/session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

std::vector<std::byte> copy_of(const Buffer& buffer) {
  const nb::gil_scoped_release release;
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

// Core's server and the loop that serves it: the loop goes first.
class EmbeddedServer {
 public:
  ~EmbeddedServer() { close(); }

  std::shared_ptr<Table> add_table(const std::string& name, const Signature& signature, std::uint64_t capacity,
                                   std::uint64_t capacity_bytes, const std::string& sampler, double priority_exponent,
                                   double samples_per_insert, double limiter_tolerance, std::uint64_t min_size,
                                   std::uint64_t seed, std::string path) {
    auto options = table_options(signature, capacity, capacity_bytes, sampler, priority_exponent, samples_per_insert,
                                 limiter_tolerance, min_size, seed, std::move(path));
    const nb::gil_scoped_release release;
    return core_.add_table(name, std::move(options));
  }

  std::uint64_t publish(const std::string& name, nb::handle data, std::uint64_t version) {
    auto blob = copy_of(Buffer(data.ptr(), "data"));
    const nb::gil_scoped_release release;
    return core_.parameters().publish(name, version, std::move(blob));
  }

  std::optional<nb::tuple> fetch(const std::string& name, std::uint64_t newer_than) {
    const auto blob = core_.parameters().fetch(name, newer_than);
    if (!blob) return std::nullopt;
    return nb::make_tuple(blob->version, to_bytes(blob->bytes));
  }

  void put(const std::string& mailbox, nb::handle message) {
    core_.mailbox(mailbox)->put(copy_of(Buffer(message.ptr(), "message")));
  }

  void close() {
    const nb::gil_scoped_release release;
    core_.close();
    loop_.close();
  }

  Server& core() { return core_; }
  Loop& loop() { return loop_; }

 private:
  Server core_;
  Loop loop_{core_};
};

// A session under test: what it does not take while a request is held waits here.
class TestedSession {
 public:
  TestedSession(EmbeddedServer& server, std::uint64_t max_frame_bytes)
      : session_(server.core(), limits(max_frame_bytes)) {}

  nb::bytes receive(nb::handle data) {
    const Buffer bytes(data.ptr(), "data");
    waiting_.insert(waiting_.end(), bytes.bytes().begin(), bytes.bytes().end());
    std::vector<std::byte> sent;
    session_.resume(now());
    take_output(sent);
    std::size_t taken = 0;
    while (taken < waiting_.size() && session_.wants_input()) {
      const auto space = session_.prepare();
      const std::size_t count = std::min(space.size(), waiting_.size() - taken);
      std::memcpy(space.data(), waiting_.data() + taken, count);
      taken += count;
      session_.commit(count, now());
      take_output(sent);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken));
    return to_bytes(sent);
  }

  bool closing() const { return session_.closing(); }

 private:
  static Limits limits(std::uint64_t max_frame_bytes) {
    Limits limits;
    limits.max_frame_bytes = max_frame_bytes;
    return limits;
  }
  static Session::Time now() { return std::chrono::steady_clock::now(); }

  void take_output(std::vector<std::byte>& sent) {
    for (auto buffers = session_.output(); !buffers.empty(); buffers = session_.output()) {
      const auto front = buffers.front();
      sent.insert(sent.end(), front.begin(), front.end());
      session_.consumed(front.size(), now());
    }
  }

  Session session_;
  std::vector<std::byte> waiting_;
};

}  // namespace

void bind_server(nb::module_& module) {
  nb::class_<EmbeddedServer> server(module, "Server",
                                    "Tables, parameters and mailboxes under names, served to local clients.");
  server.def(nb::init<>());
  with_table_arguments(
      [&](const auto&... arguments) { server.def("add_table", &EmbeddedServer::add_table, "name"_a, arguments...); });
  server.def(
            "table", [](EmbeddedServer& self, const std::string& name) { return self.core().table(name); }, "name"_a)
      .def("publish", &EmbeddedServer::publish, "name"_a, "data"_a, "version"_a = 0)
      .def("fetch", &EmbeddedServer::fetch, "name"_a, "newer_than"_a = 0)
      .def("put", &EmbeddedServer::put, "mailbox"_a, "message"_a)
      .def(
          "drain",
          [](EmbeddedServer& self, const std::string& mailbox) {
            return to_list(self.core().mailbox(mailbox)->drain());
          },
          "mailbox"_a)
      .def(
          "listen", [](EmbeddedServer& self, const std::string& address) { return self.loop().listen(address); },
          "address"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("connections", [](EmbeddedServer& self) { return self.loop().connections(); })
      .def("close", &EmbeddedServer::close);

  nb::class_<TestedSession>(module, "Session", "The sans-I/O protocol session: bytes in, bytes out.")
      .def(nb::init<EmbeddedServer&, std::uint64_t>(), "server"_a, "max_frame_bytes"_a = Limits().max_frame_bytes,
           nb::keep_alive<1, 2>())
      .def("receive", &TestedSession::receive, "data"_a)
      .def_prop_ro("closing", &TestedSession::closing);
}

}  // namespace headrace::bindings
