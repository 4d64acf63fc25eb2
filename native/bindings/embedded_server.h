// Core's server together with the loop that serves it, as Python's Server.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <utility>

#include "bindings/python_lock.h"
#include "core/server.h"
#include "io/loop.h"

namespace headrace::bindings {

class EmbeddedServer {
 public:
  EmbeddedServer(ServerOptions server, LoopOptions loop) : core_(std::move(server)), loop_(core_, std::move(loop)) {}
  // A file that can't be written is reported as Python does for a destructor: no caller could catch it.
  ~EmbeddedServer() {
    try {
      close();
    } catch (const std::exception& error) {
      const nanobind::error_scope pending;
      PyErr_SetString(PyExc_OSError, error.what());
      PyErr_WriteUnraisable(nullptr);
    }
  }
  EmbeddedServer(const EmbeddedServer&) = delete;
  EmbeddedServer& operator=(const EmbeddedServer&) = delete;

  // Ends all connections without an answer to what they asked: for their clients, which may connect again to a server
  // on the same data, it is away.
  void disconnect() {
    const Released release;
    loop_.close();
  }

  // Tables first, so that held requests are answered while their connections exist; shards last, when no request can
  // change them. Called with the GIL. Throws where a file can't be written; everything is closed nevertheless.
  void close() {
    const Released release;
    std::exception_ptr failed;
    const auto attempt = [&](auto step) {
      try {
        step();
      } catch (...) {
        failed = std::current_exception();
      }
    };
    attempt([&] { core_.close(); });
    loop_.close();
    attempt([&] { core_.close_shards(); });
    if (failed) std::rethrow_exception(failed);
  }

  Server& core() { return core_; }
  Loop& loop() { return loop_; }

 private:
  Server core_;
  Loop loop_;  // destroyed before the server that it serves
};

}  // namespace headrace::bindings
