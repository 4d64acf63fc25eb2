// The server's state as JSON text: {"tables": {name: {...}}, "parameters": {name: {"version": v, "bytes": n}}}.
#pragma once

#include <string>

#include "core/server.h"

namespace headrace {

std::string stats_json(Server& server);

}  // namespace headrace
