"""Shows a server's contents and activity from its statistics; rates are differences of two snapshots."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.report.formats import count, counted, duration, number, size

__all__ = [
    "Connection",
    "MailboxFlow",
    "ServerView",
    "ShardFlow",
    "TableFlow",
    "connections",
    "cpu_share",
    "mailbox_flows",
    "shard_flows",
    "status_line",
    "table_flows",
]

Statistics = Mapping[str, Any]
"""The result of the server's `stats()`: names, and counters since its start."""

_MOST_CONNECTIONS = 12
_SAME_START_SECONDS = 0.05


class TableFlow(NamedTuple):
    """One table between two snapshots. Rates are per second; shares are of the time in between."""

    name: str
    state: str
    size: int
    capacity: int
    used_bytes: int
    inserts: float
    samples: float
    samples_per_insert: float
    inserts_held: float
    samples_held: float


class ShardFlow(NamedTuple):
    """One shard between two snapshots. Rates are per second; other numbers count from its opening."""

    name: str
    size: int
    bytes: int
    version: int
    updates: float
    staleness: float
    """Mean number of updates by others that gradients were behind; 64 and more count as 64."""
    apply_seconds: float
    """Mean time to apply one gradient."""
    dropped: int
    refused: int


class MailboxFlow(NamedTuple):
    """One mailbox between two snapshots. Rates are per second; other numbers count from its creation."""

    name: str
    messages: int
    """Messages that no one has taken yet."""
    bytes: int
    received: float
    dropped: int


class Connection(NamedTuple):
    """One connection between two snapshots. Rates are per second."""

    peer: str
    seconds: float
    requests: float
    received_bytes: float
    sent_bytes: float
    blocked: bool


class ServerView:
    """A server between two snapshots, as wide as the console; of many connections, only the busiest."""

    def __init__(self, address: str, before: Statistics | None, after: Statistics) -> None:
        self._address = address
        self._before = before
        self._after = after

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A panel with the server's totals, tables, parameters, shards and mailboxes (if any), and connections."""
        parts: list[RenderableType] = [self._summary()]
        shards = [self._shards()] if self._after["shards"] else []
        mailboxes = [self._mailboxes()] if self._after["mailboxes"] else []
        for section in (self._tables(), self._parameters(), *shards, *mailboxes, self._connections()):
            parts += ["", *section]
        title = Text.assemble((self._address, "bold"), f" · up {duration(self._after['uptime_seconds'])}")
        yield Panel(Group(*parts), title=title, title_align="left", border_style="bright_black")

    def _summary(self) -> Text:
        after = self._after
        limit = after["memory_limit_bytes"]
        memory = size(after["memory_bytes"]) + (f" of {size(limit)}" if limit is not None else "")
        text = Text.assemble(("memory ", "dim"), memory, ("   cpu ", "dim"), f"{cpu_share(self._before, after):.0%}")
        return text.append("   data ", "dim").append(after["data"] or "only in memory")

    def _tables(self) -> Iterator[Table | Text]:
        flows = table_flows(self._before, self._after)
        if not flows:
            yield Text("no tables", "dim")
            return
        table = _grid("table", "filled", "bytes", "inserts/s", "samples/s", "ratio", "state")
        for flow in flows:
            table.add_row(
                Text(flow.name),
                f"{count(flow.size)} / {count(flow.capacity)}",
                size(flow.used_bytes),
                count(flow.inserts),
                count(flow.samples),
                number(flow.samples_per_insert),
                _state(flow),
            )
        yield table

    def _parameters(self) -> Iterator[Table | Text]:
        blobs = self._after["parameters"]
        if not blobs:
            yield Text("no parameters", "dim")
            return
        table = _grid("parameters", "version", "bytes")
        for name, blob in sorted(blobs.items()):
            table.add_row(Text(name), count(blob["version"]), size(blob["bytes"]))
        yield table

    def _shards(self) -> Iterator[Table | Text]:
        table = _grid("shard", "floats", "bytes", "version", "updates/s", "stale", "apply", "state")
        for flow in shard_flows(self._before, self._after):
            losses = [f"{count(n)} {word}" for word, n in (("dropped", flow.dropped), ("refused", flow.refused)) if n]
            table.add_row(
                Text(flow.name),
                count(flow.size),
                size(flow.bytes),
                count(flow.version),
                count(flow.updates),
                number(flow.staleness),
                f"{count(1e6 * flow.apply_seconds)} µs",
                Text(", ".join(losses), "yellow"),
            )
        yield table

    def _mailboxes(self) -> Iterator[Table | Text]:
        table = _grid("mailbox", "messages", "bytes", "received/s", "state")
        for flow in mailbox_flows(self._before, self._after):
            dropped = f"{count(flow.dropped)} dropped" if flow.dropped else ""
            table.add_row(
                Text(flow.name), count(flow.messages), size(flow.bytes), count(flow.received), Text(dropped, "yellow")
            )
        yield table

    def _connections(self) -> Iterator[Table | Text]:
        found = connections(self._before, self._after)
        if not found:
            yield Text("no connections", "dim")
            return
        table = _grid("connection", "age", "requests/s", "received/s", "sent/s", "")
        for each in found[:_MOST_CONNECTIONS]:
            table.add_row(
                Text(each.peer),
                duration(each.seconds),
                count(each.requests),
                size(each.received_bytes),
                size(each.sent_bytes),
                Text("held" if each.blocked else "", "yellow"),
            )
        yield table
        rest = found[_MOST_CONNECTIONS:]
        if rest:
            moved = sum(each.received_bytes + each.sent_bytes for each in rest)
            held = sum(each.blocked for each in rest)
            yield Text(f"and {count(len(rest))} more: {size(moved)}/s, {count(held)} held", "dim")


def table_flows(before: Statistics | None, after: Statistics) -> list[TableFlow]:
    """The tables by name; rates are 0 without an earlier snapshot, or if the server or table is newer than it."""
    seconds = _seconds_between(before, after)
    flows = []
    for name, now in sorted(after["tables"].items()):
        then = _earlier(before, after, name)
        rate = {
            key: max(0.0, now[key] - then[key]) / seconds if then and seconds else 0.0
            for key in ("inserts", "samples", "insert_blocked_seconds", "sample_blocked_seconds")
        }
        flows.append(
            TableFlow(
                name,
                now["state"],
                now["size"],
                now["capacity"],
                now["used_bytes"],
                rate["inserts"],
                rate["samples"],
                now["samples_per_insert"],
                min(1.0, rate["insert_blocked_seconds"]),
                min(1.0, rate["sample_blocked_seconds"]),
            )
        )
    return flows


def shard_flows(before: Statistics | None, after: Statistics) -> list[ShardFlow]:
    """The shards by name; rates are 0 without an earlier snapshot, or if the server or shard is newer than it."""
    seconds = _seconds_between(before, after)
    flows = []
    for name, now in sorted(after["shards"].items()):
        then = before["shards"].get(name) if before is not None else None
        known = then is not None and then["accepted"] <= now["accepted"]
        gradients = sum(now["staleness"])
        flows.append(
            ShardFlow(
                name,
                now["size"],
                now["bytes"],
                now["version"],
                (now["accepted"] - then["accepted"]) / seconds if then and known and seconds else 0.0,
                sum(late * n for late, n in enumerate(now["staleness"])) / max(1, gradients),
                now["apply_seconds"] / max(1, gradients),
                now["dropped"],
                now["refused"],
            )
        )
    return flows


def mailbox_flows(before: Statistics | None, after: Statistics) -> list[MailboxFlow]:
    """The mailboxes by name; rates are 0 without an earlier snapshot, or if the server or mailbox is newer than it."""
    seconds = _seconds_between(before, after)
    flows = []
    for name, now in sorted(after["mailboxes"].items()):
        then = before["mailboxes"].get(name) if before is not None else None
        received = max(0, now["received"] - then["received"]) / seconds if then and seconds else 0.0
        flows.append(MailboxFlow(name, now["messages"], now["bytes"], received, now["dropped"]))
    return flows


def connections(before: Statistics | None, after: Statistics) -> list[Connection]:
    """Connections in descending order of bytes moved; without an earlier snapshot, rates are averages over its life.

    A peer may have several connections, which are told apart by their start times.
    """
    seconds = _seconds_between(before, after)
    known = [(before["uptime_seconds"] - each["seconds"], each) for each in before["connections"]] if before else []
    found = []
    for now in after["connections"]:
        began = after["uptime_seconds"] - now["seconds"]
        place = next(
            (
                index
                for index, (start, then) in enumerate(known)
                if seconds and then["peer"] == now["peer"] and abs(start - began) < _SAME_START_SECONDS
            ),
            None,
        )
        then = known.pop(place)[1] if place is not None else dict.fromkeys(now, 0)
        span = seconds or now["seconds"] or 1.0
        found.append(
            Connection(
                now["peer"],
                now["seconds"],
                (now["requests"] - then["requests"]) / span,
                (now["received_bytes"] - then["received_bytes"]) / span,
                (now["sent_bytes"] - then["sent_bytes"]) / span,
                now["blocked"],
            )
        )
    return sorted(found, key=lambda each: -(each.received_bytes + each.sent_bytes))


def status_line(before: Statistics | None, after: Statistics) -> str:
    """The server in one line of ASCII."""
    flows = table_flows(before, after)
    limit = after["memory_limit_bytes"]
    return ", ".join(
        [
            f"[{duration(after['uptime_seconds'])}] {counted(len(after['connections']), 'connection')}",
            f"{counted(len(flows), 'table')} with {count(sum(flow.size for flow in flows))} transitions",
            f"{count(sum(flow.inserts for flow in flows))} inserts/s",
            f"{count(sum(flow.samples for flow in flows))} samples/s",
            f"memory {size(after['memory_bytes'])}" + (f" of {size(limit)}" if limit is not None else ""),
            f"cpu {cpu_share(before, after):.0%}",
        ]
    )


def _seconds_between(before: Statistics | None, after: Statistics) -> float:
    """Time between two snapshots of one server; 0 if there is no earlier one or the server was restarted."""
    if before is None or before["instance"] != after["instance"]:
        return 0.0
    return max(0.0, float(after["uptime_seconds"] - before["uptime_seconds"]))


def _earlier(before: Statistics | None, after: Statistics, table: str) -> Mapping[str, Any] | None:
    """The same table in the first snapshot; None if the table was created since then."""
    then = before["tables"].get(table) if before is not None else None
    return then if then is not None and then["inserts"] <= after["tables"][table]["inserts"] else None


def cpu_share(before: Statistics | None, after: Statistics) -> float:
    """Processor time as a share of one core, since the first snapshot or else since the server's start."""
    seconds = _seconds_between(before, after)
    if before is None or not seconds:
        return float(after["cpu_seconds"] / max(after["uptime_seconds"], 1e-3))
    return float((after["cpu_seconds"] - before["cpu_seconds"]) / seconds)


def _state(flow: TableFlow) -> Text:
    """The table's state, and the share of time for which the limiter blocks each side."""
    sides = [("inserts", flow.inserts_held), ("samples", flow.samples_held)]
    held = [f"{name} held {share:.0%}" for name, share in sides if share >= 0.005]
    words = [*([] if flow.state == "open" and held else [flow.state]), *held]
    return Text(", ".join(words), "" if words == ["open"] else "yellow")


def _grid(*columns: str) -> Table:
    """A table without lines; numbers are aligned to the right, and a state is wrapped if there is no room."""
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for index, name in enumerate(columns):
        left = index == 0 or name in ("state", "")
        table.add_column(name, justify="left" if left else "right", no_wrap=name != "state")
    return table
