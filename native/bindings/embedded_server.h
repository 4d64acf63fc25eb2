// Core's server together with the loop that serves it, as Python's Server.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <utility>

#include "core/server.h"
#include "io/loop.h"

namespace headrace::bindings {

class EmbeddedServer {
 public:
  EmbeddedServer(ServerOptions server, LoopOptions loop) : core_(std::move(server)), loop_(core_, std::move(loop)) {}
  ~EmbeddedServer() { close(); }

  // Tables first, so that whoever waits is answered while there are connections. Called with the GIL.
  void close() {
    const nanobind::gil_scoped_release release;
    core_.close();
    loop_.close();
  }

  Server& core() { return core_; }
  Loop& loop() { return loop_; }

 private:
  Server core_;
  Loop loop_;  // goes before the server that it serves
};

}  // namespace headrace::bindings
