"""`headrace serve`: a standalone server for the actors and learners of any number of runs."""

import contextlib
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import tyro

from headrace._native import Server
from headrace.cli import bypass
from headrace.cli.arguments import MetricsListen, SavePeriod, Size, Switch, parse
from headrace.cli.sinks import import_metrics
from headrace.errors import ConfigError, require
from headrace.machine import SERVER_MEMORY_SHARE, raise_descriptor_limit, server_memory_bytes
from headrace.report.display import draws_live
from headrace.report.formats import count, counted, size
from headrace.report.server_view import status_line
from headrace.servers import is_redis, read_token, shown

__all__ = ["run"]

_DEFAULT_ADDRESS = "tcp://127.0.0.1:7447"
_STATUS_SECONDS = 60.0
_LIVE_SECONDS = 1.0
_POLL_SECONDS = 0.1
_LEAST_TOKEN_BYTES, _MOST_TOKEN_BYTES = 16, 4096  # as in native/wire/token.cc


@dataclass(frozen=True)
class _Options:
    listen: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="ADDRESS")] = ()
    """tcp://HOST:PORT (port 0 is a free one), unix:PATH or unix:@NAME; tcp://127.0.0.1:7447 if not set.
    dpdk:KIND,... bypasses the kernel, see docs/bypass.md."""
    data: Path | None = None
    """Directory that keeps experience and shards, so that a restarted server has them again; created if missing."""
    shard_save_period_seconds: SavePeriod = 1.0
    """With --data: how old a shard of parameters may be after the server was killed."""
    memory: Size = None
    """Limit for tables, parameters and buffers: 512M, 8G, 1.5GiB; if not set, 80 % of this machine's memory,
    or of what its control group may use."""
    max_connections: int = 4096
    """Connections that the server accepts; each takes a file descriptor. A further one is closed with an error."""
    token_file: Path | None = None
    """File with the secret that TCP clients need; required unless the server listens on this machine only."""
    poll: bypass.Poll | None = None
    """With a dpdk: address: adaptive (default) naps when there is nothing to do, always occupies a core."""
    metrics_listen: MetricsListen = None
    """Serve metrics for Prometheus on HOST:PORT, or PORT of this machine only; anyone who can connect may read them."""
    quiet: Switch = False
    """Print only the addresses of --listen and --metrics-listen."""

    def __post_init__(self) -> None:
        require("max_connections", self.max_connections, 0 < self.max_connections <= 1_000_000, "from 1 to 1000000")
        require("memory", self.memory, self.memory is None or self.memory > 0, "above 0 bytes")
        require("memory", self.memory, self.memory is None or self.memory < 2**63, "below 8 EiB")
        period = self.shard_save_period_seconds
        require("shard_save_period", period, 0 < period <= 86400, "above 0, at most a day")
        require("shard_save_period", period, self.data is not None or period == 1.0, "left out without --data")
        for name, text in (*(("listen", each) for each in self.listen), ("data", str(self.data))):
            require(name, ascii(text), text.isprintable(), "one that can be printed")
        polls = any(map(bypass.is_bypass, self.listen))
        refused = polls and self.metrics_listen is not None
        require("metrics_listen", self.metrics_listen, not refused, "left out with a dpdk: address in --listen")
        require("poll", self.poll, self.poll is None or polls, "used with a dpdk: address in --listen")
        most = bypass.MOST_CONNECTIONS
        allowed = self.max_connections <= most or not polls
        require("max_connections", self.max_connections, allowed, f"at most {most} with a dpdk: address in --listen")


def run(arguments: Sequence[str]) -> int:
    """Serves until SIGTERM, SIGHUP or SIGINT; returns the exit code."""
    options = parse(
        _Options,
        arguments,
        prog="headrace serve",
        description="Run a server that holds experience and parameters for actors and learners on any machine.",
    )
    for address in options.listen:
        if is_redis(address):
            raise ConfigError(
                f"listen is {shown(address)}; it must be a tcp://, unix: or dpdk: address "
                "(start Redis with redis-server)"
            )
    token = _token(options.token_file)
    raise_descriptor_limit()
    memory = options.memory or server_memory_bytes()
    if any(map(bypass.is_bypass, options.listen)):
        bypass.start(
            options.listen,
            memory_bytes=memory,
            data=options.data,
            shard_save_seconds=options.shard_save_period_seconds,
            max_connections=options.max_connections,
            token_file=options.token_file,
            poll=options.poll or "adaptive",
        )
    metrics = import_metrics() if options.metrics_listen is not None else None
    with _interrupts() as requested:
        server = Server(
            data=str(options.data or ""),
            memory_bytes=memory,
            token=token,
            shard_save_seconds=options.shard_save_period_seconds,
            max_connections=options.max_connections,
        )
        try:
            warned = _warn_of(server, 0)
            with _serve_metrics(server, metrics, options.metrics_listen) as metrics_address:
                _listen(server, options, memory)
                if metrics_address:
                    _say(f"metrics   {metrics_address}")
                _serve(server, requested, warned, quiet=options.quiet)
            if not options.quiet:
                _say("stopping" + (": writing the remaining data to disk" if options.data else ""))
        finally:
            server.disconnect()  # before tables are closed, which would tell clients not to come back
            server.close()
    return 0


def _listen(server: Server, options: _Options, memory: int) -> None:
    """Starts to listen; prints the address, the memory limit, and what the data directory contains."""
    for address in options.listen or (_DEFAULT_ADDRESS,):
        _say(f"listening on {server.listen(address)}")
    if options.quiet:
        return
    share = "" if options.memory else f", {SERVER_MEMORY_SHARE:.0%} of this machine's"
    _say(f"memory    {size(memory)}{share}")
    if options.data is None:
        _say("data      kept only in memory; --data DIR keeps it on disk")
    else:
        stats = server.stats()
        recovered = sum(table["recovered"] for table in stats["tables"].values())
        found = (
            [f"{counted(len(stats['tables']), 'table')} of {count(recovered)} transitions"] if stats["tables"] else []
        )
        found += [counted(len(stats["shards"]), "shard")] if stats["shards"] else []
        _say(f"data      {options.data}, with {' and '.join(found) or 'nothing yet'}")


@contextlib.contextmanager
def _serve_metrics(server: Server, metrics: Any, listen: str | None) -> Iterator[str | None]:
    """A context in which the server's metrics can be read over HTTP, if an address is given; its value is their URL."""
    if listen is None:
        yield None
        return
    with metrics.serve_metrics(listen, lambda: metrics.server_families(server.stats())) as address:
        yield address


def _serve(server: Server, requested: Callable[[], bool], warned: int, *, quiet: bool) -> None:
    """Shows a status line at intervals, and warnings after the first `warned`, until a stop is requested."""
    live = not quiet and draws_live(sys.stdout)
    period = _LIVE_SECONDS if live else _STATUS_SECONDS
    with _status_display(live) as show:
        before: dict[str, Any] | None = None
        due = time.monotonic() + (0.0 if live else period)
        while not requested():
            warned = _warn_of(server, warned)
            if not quiet and time.monotonic() >= due:
                due += period
                after = server.stats()
                show(status_line(before, after))
                before = after
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def _status_display(live: bool) -> Iterator[Callable[[str], None]]:
    """A context whose function shows a line: in place on a terminal, otherwise below the previous one."""
    if not live:
        yield _say
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False) as display:
        yield lambda line: display.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """A context whose function returns True after SIGTERM, SIGHUP or SIGINT; a second signal ends the process at once.

    An ignored SIGHUP (nohup) stays ignored, and a second SIGHUP, since a terminal that is closed sends two.
    """
    requested = False

    def ask(number: int, _frame: FrameType | None) -> None:
        nonlocal requested
        requested = True
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else signal.SIG_DFL)

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield lambda: requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _token(path: Path | None) -> bytes | None:
    """The secret in the file, if one is given; warns if other users of this machine can read it."""
    if path is None:
        return None
    token = read_token(path)
    fits = _LEAST_TOKEN_BYTES <= len(token) <= _MOST_TOKEN_BYTES
    secret = f"a file with a secret of {_LEAST_TOKEN_BYTES} to {_MOST_TOKEN_BYTES} bytes"
    require("token_file", path, fits, secret)
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        _warn(f"{path} has mode {mode:o}, so other users of this machine may read the token; chmod 600 {path}")
    return token


def _warn_of(server: Server, warned: int) -> int:
    """Prints the server's warnings but the first `warned`; returns their number."""
    notices = server.notices()
    for notice in notices[warned:]:
        _warn(notice)
    return len(notices)


def _warn(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"headrace: warning: {text}", file=sys.stderr, flush=True)


def _say(text: str) -> None:
    """Prints a line at once; a closed pipe does not end the server."""
    with contextlib.suppress(OSError):
        print(text, flush=True)
