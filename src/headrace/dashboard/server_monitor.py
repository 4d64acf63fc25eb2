"""What the page shows of a server, which a thread asks for its statistics."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import Event, Lock, Thread
from typing import Any

from headrace._native import Client
from headrace.dashboard.records import Record
from headrace.dashboard.series import Series
from headrace.errors import ClosedError, ServerError, StorageError
from headrace.report.server_view import Statistics, connections, cpu_share, mailbox_flows, shard_flows, table_flows

__all__ = ["COLUMNS", "ServerMonitor"]

COLUMNS = (
    "seconds",
    "inserts",
    "samples",
    "updates",
    "received_bytes",
    "sent_bytes",
    "memory_bytes",
    "cpu",
    "connections",
)
"""Numbers over time: the first since the monitor's start; rates per second, `cpu` as a share of a core."""

_CONNECT_SECONDS = 2.0
_REQUEST_SECONDS = 10.0
_LEAVE_SECONDS = 1.0
_MOST_LISTED = 100
"""Tables, parameters, shards, mailboxes, claims and connections of each kind that are shown."""


class ServerMonitor:
    """Asks a server for its statistics once per period, from start() to close(). Thread-safe.

    A server that is not there, or refuses, is asked again in every period. One that was restarted goes on in the same
    series, with a gap.
    """

    def __init__(self, address: str, token: bytes | None, *, period_seconds: float = 1.0) -> None:
        self.address = address
        self._token = token
        self._period_seconds = period_seconds
        self._client: Client | None = None
        self._lock = Lock()  # guards what follows
        self._began = time.monotonic()
        self._answered: float | None = None
        self._status, self._error = "connecting", ""
        self._restarts = 0
        self._before: Statistics | None = None
        self._parts: Record = {}
        self._series = Series(COLUMNS)
        self._ending = Event()
        self._thread = Thread(target=self._run, name="monitor", daemon=True)

    def start(self) -> None:
        """Asks once, then starts the thread; raises HeadraceError for what can't become right while it runs.

        That is an address that can't be, a token that the server refuses, and a server of another kind. One that does
        not answer may come.
        """
        self.look()
        with self._lock:
            if self._status == "refused":
                raise ServerError(self._error)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and the connection."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(_LEAVE_SECONDS)
        if self._client is not None and not self._thread.is_alive():  # else it waits for a server that hangs
            self._client.close()

    def update(self, total: int | None) -> tuple[int, Record]:
        """What changed since the first `total` rows (None: everything), and the present number of rows."""
        with self._lock:
            rows = self._series.since(total) if total is not None else None
            series = self._series.transpose(self._series.rows() if rows is None else rows)
            silent = 0 if self._answered is None else int(time.monotonic() - self._answered)
            connection = {
                "address": self.address,
                "status": self._status,
                "error": self._error,
                "restarts": self._restarts,
                "silent_seconds": silent if silent > 3 * self._period_seconds else 0,
            }
            state = {"connection": connection, **self._parts}
            return self._series.total, {"reset": rows is None, "series": series, "state": state}

    def _run(self) -> None:
        while not self._ending.wait(self._period_seconds):
            self.look()

    def look(self) -> None:
        """Takes one snapshot, or notes why there is none. Raises ConfigError for an address that can't be."""
        try:
            if self._client is None:
                self._client = Client(
                    self.address, _CONNECT_SECONDS, token=self._token, request_timeout_seconds=_REQUEST_SECONDS
                )
            stats = self._client.stats()
            with self._lock:
                self._take(stats)
        except (StorageError, ClosedError) as error:
            self._note("unreachable", str(error))
        except ServerError as error:
            self._note("refused", str(error))
        except (AttributeError, KeyError, TypeError, ValueError):  # only its statistics are read
            self._note("refused", f"address '{self.address}': the statistics are not those of a Headrace server")

    def _note(self, status: str, error: str) -> None:
        """Notes why there is no snapshot, and leaves a gap in the series."""
        if self._client is not None:
            self._client.close()
            self._client = None
        with self._lock:
            if self._status == "connected":
                self._series.add([time.monotonic() - self._began, *[None] * (len(COLUMNS) - 1)])
            self._status, self._error = status, error

    def _take(self, after: Statistics) -> None:
        now, before = time.monotonic(), self._before
        if before is not None and before["instance"] != after["instance"]:
            self._restarts += 1
            before = None
        self._parts = parts = _parts(before, after)
        self._before, self._answered = after, now
        self._status, self._error = "connected", ""
        if before is None:  # there are no rates yet
            return
        totals = parts["totals"]
        row = [now - self._began, *(float(totals[name]) for name in COLUMNS[1:])]
        self._series.add(row)


def _parts(before: Statistics | None, after: Statistics) -> Record:
    """What the page shows of a snapshot; rates are those since the one before."""
    tables, shards = table_flows(before, after), shard_flows(before, after)
    mailboxes, peers = mailbox_flows(before, after), connections(before, after)
    runs = _runs(after)
    totals = {
        "uptime_seconds": after["uptime_seconds"],
        "memory_bytes": after["memory_bytes"],
        "memory_limit_bytes": after["memory_limit_bytes"],
        "data": after["data"],
        "cpu": cpu_share(before, after),
        "inserts": sum(each.inserts for each in tables),
        "samples": sum(each.samples for each in tables),
        "updates": sum(each.updates for each in shards),
        "received_bytes": sum(each.received_bytes for each in peers) if before else 0.0,
        "sent_bytes": sum(each.sent_bytes for each in peers) if before else 0.0,
        "connections": len(peers),
        "blocked": sum(each.blocked for each in peers),
        "runs": len(runs),
        "tables": len(tables),
        "parameters": len(after["parameters"]),
        "shards": len(shards),
        "mailboxes": len(mailboxes),
        "claims": after["claim_count"],
    }
    return {
        "totals": totals,
        "runs": runs[:_MOST_LISTED],
        "tables": [each._asdict() for each in sorted(tables, key=lambda flow: -flow.inserts - flow.samples)][
            :_MOST_LISTED
        ],
        "parameters": _parameters(before, after)[:_MOST_LISTED],
        "shards": [each._asdict() for each in shards[:_MOST_LISTED]],
        "mailboxes": [each._asdict() for each in mailboxes[:_MOST_LISTED]],
        "claims": after["claims"][:_MOST_LISTED],
        "connections": [each._asdict() for each in peers[:_MOST_LISTED]],
    }


def _parameters(before: Statistics | None, after: Statistics) -> list[Record]:
    """The parameters by name, with versions per second."""
    seconds = after["uptime_seconds"] - before["uptime_seconds"] if before is not None else 0.0
    found = []
    for name, now in sorted(after["parameters"].items()):
        then: Mapping[str, Any] | None = before["parameters"].get(name) if before is not None else None
        rate = max(0, now["version"] - then["version"]) / seconds if then and seconds > 0 else 0.0
        found.append({"name": name, "version": now["version"], "bytes": now["bytes"], "versions": rate})
    return found


def _runs(after: Statistics) -> list[Record]:
    """What is stored under each run's name, and which roles claim it; names without a run are left out."""
    claimed: dict[str, list[str]] = defaultdict(list)
    for run, rest in _split(after["claims"]):
        claimed[run].append(rest.partition("/")[0])
    stored: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for group, count in (("tables", "size"), ("parameters", ""), ("shards", "")):
        for run, rest in _split(after[group]):
            thing = after[group][f"{run}/{rest}"]
            stored[run][0] += thing[count] if count else 0
            stored[run][1] += thing["used_bytes" if group == "tables" else "bytes"]
    return [
        {
            "name": run,
            "learner": "learner" in claimed[run],
            "actors": claimed[run].count("actor"),
            "workers": claimed[run].count("worker"),
            "transitions": stored[run][0],
            "bytes": stored[run][1],
        }
        for run in sorted({*claimed, *stored})
    ]


def _split(names: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, str]]:
    """The run and the rest of each name that has a run."""
    return [(run, rest) for run, slash, rest in (name.partition("/") for name in names) if slash]
