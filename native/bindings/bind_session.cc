#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "bindings/arrays.h"
#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/client_options.h"
#include "bindings/embedded_server.h"
#include "wire/session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace headrace::bindings {
namespace {

// A session under test: what it does not take while a request is held waits here.
class TestedSession {
 public:
  TestedSession(EmbeddedServer& server, std::uint64_t max_frame_bytes, const std::optional<nb::bytes>& token)
      : token_(token_of(token)), session_(server.core(), options(max_frame_bytes), now()) {}

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
  SessionOptions options(std::uint64_t max_frame_bytes) const {
    SessionOptions options;
    options.limits.max_frame_bytes = max_frame_bytes;
    options.peer = "test";
    if (token_) options.token = &*token_;
    std::random_device random;
    for (auto& byte : options.nonce) byte = static_cast<std::byte>(random());
    return options;
  }
  static Session::Time now() { return std::chrono::steady_clock::now(); }

  void take_output(std::vector<std::byte>& sent) {
    for (auto buffers = session_.output(); !buffers.empty(); buffers = session_.output()) {
      const auto front = buffers.front();
      sent.insert(sent.end(), front.begin(), front.end());
      session_.consumed(front.size(), now());
    }
  }

  const std::optional<Token> token_;
  Session session_;
  std::vector<std::byte> waiting_;
};

}  // namespace

void bind_session(nb::module_& module) {
  nb::class_<TestedSession>(module, "Session", "The sans-I/O protocol session: bytes in, bytes out.")
      .def(nb::init<EmbeddedServer&, std::uint64_t, const std::optional<nb::bytes>&>(), "server"_a,
           "max_frame_bytes"_a = Limits().max_frame_bytes, "token"_a = nb::none(), nb::keep_alive<1, 2>())
      .def("receive", &TestedSession::receive, "data"_a)
      .def_prop_ro("closing", &TestedSession::closing);
}

}  // namespace headrace::bindings
