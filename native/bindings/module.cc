// headrace._native: conversion only. src/headrace/_native.pyi is its contract.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings/bind.h"
#include "bindings/calls.h"
#include "bindings/python_lock.h"
#include "io/user_space.h"

namespace {

// Where `make bypass` puts it.
std::string user_space_library() {
  namespace nb = nanobind;
  return nb::cast<std::string>(nb::module_::import_("sys").attr("prefix")) + "/lib/libheadrace-bypass-client.so";
}

}  // namespace

NB_MODULE(_native, module) {
  nanobind::set_leak_warnings(false);  // of objects that a user's globals hold at exit
  headrace::bindings::watch_exit();
  headrace::set_user_space_library(user_space_library());
  headrace::bindings::bind_errors(module);
  headrace::bindings::bind_encoding(module);
  headrace::bindings::bind_signature(module);
  headrace::bindings::bind_writer(module);
  headrace::bindings::bind_table(module);
  headrace::bindings::bind_optimizer(module);
  headrace::bindings::bind_shared_model(module);
  headrace::bindings::bind_dense(module);
  headrace::bindings::bind_server(module);
  headrace::bindings::bind_session(module);
  headrace::bindings::bind_client(module);
  headrace::bindings::bind_stream(module);
  headrace::bindings::bind_shards(module);
}
