// The server's state as JSON text:
//
//   {"instance": n, "uptime_seconds": s, "cpu_seconds": s, "memory_bytes": n, "memory_limit_bytes": n or null,
//    "data": "DIR" or "", "tables": {name: {..., "state": "open"}}, "parameters": {name: {"version": v, "bytes": n}},
//    "shards": {name: {"size": n, "optimizer": "kind=adam;...", "policy": "accept", "bytes": n, "version": v,
//    "accepted": n, "dropped": n, "refused": n, "apply_seconds": s, "staleness": [n of 0, n of 1, ..., n of 64 or
//    more]}}, "mailboxes": {name: {"messages": n, "bytes": n, "received": n, "dropped": n}}, "claim_count": n,
//    "claims": [name, ...], "connections": [{"peer": p, "seconds": s, "requests": n, "received_bytes": n,
//    "sent_bytes": n, "blocked": b}, ...]}
//
// cpu_seconds is the whole process's, "state" a TableState in words; "claims" names the first thousand.
#pragma once

#include <string>

#include "core/server.h"

namespace headrace {

std::string stats_json(Server& server);

}  // namespace headrace
