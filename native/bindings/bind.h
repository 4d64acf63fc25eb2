// The parts of the module.
#pragma once

#include <nanobind/nanobind.h>

namespace headrace::bindings {

void bind_encoding(nanobind::module_& module);
void bind_signature(nanobind::module_& module);
void bind_writer(nanobind::module_& module);
void bind_table(nanobind::module_& module);
void bind_server(nanobind::module_& module);
void bind_client(nanobind::module_& module);
void bind_stream(nanobind::module_& module);
void bind_shards(nanobind::module_& module);
void bind_session(nanobind::module_& module);
void bind_optimizer(nanobind::module_& module);
void bind_shared_model(nanobind::module_& module);
void bind_dense(nanobind::module_& module);

}  // namespace headrace::bindings
