"""Runs one case: server, learner and actors as processes, all measured in one window.

The server is Headrace's, or a Redis.
"""

import contextlib
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.servers.base import Endpoint
from headrace.studies.in_network.case import REDIS_VARIANTS, ActorSettings, Case, LearnerSettings
from headrace.studies.in_network.hosts import Hosts, make_hosts
from headrace.studies.processes import Process, open_window, serve

__all__ = ["REDIS", "Record", "measure"]

REDIS = "redis-server"
_REDIS_SECONDS = 20.0
_RUN = "study"
_HOST_PORT = 7447  # free on a host that we create
_FRAMES_PER_SECOND = 139.0
"""Rate of a synthetic actor while nothing blocks it (Horgan et al. 2018: 360 actors, 50,000 frames per second)."""
_LEARNER, _ACTOR = (f"headrace.studies.in_network.{role}" for role in ("learner", "actor"))
_FILL_CHUNKS = 64
_LEFT_CHUNKS = 64
_CHUNK_BYTES = 390_000  # slightly fewer than in a chunk
_START_SECONDS = 120.0
_LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Record:
    """The raw measurements of a case's processes."""

    case: Case
    learner: dict[str, Any]
    actors: list[dict[str, Any]]
    server_cpu_seconds: float
    sent: dict[str, float]
    """Bytes per second in each direction of each link, such as "actors-server"; empty without hosts."""
    actors_sent_bytes: int
    """Bytes over the actors' link from their start to their end; 0 without hosts."""
    redis_client: str | None
    """The Redis client of the roles; None without Redis."""


class _Running(NamedTuple):
    """A server's process, and how the learner and the actors reach it."""

    process: Process
    learner: Endpoint
    actors: Endpoint


def measure(case: Case) -> Record:
    """Runs a case and removes its processes and hosts. Raises LaunchError if one of them fails."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-study-")))
        hosts = stack.enter_context(make_hosts(case.link)) if case.link else None
        server = stack.enter_context(_server(case, hosts, folder))

        def start(host: str, module: str, settings: LearnerSettings | ActorSettings, number: str = "") -> Process:
            prefix = hosts.command(host) if hosts else []
            name = f"{module.rpartition('.')[2]}{number}"
            return stack.enter_context(Process.of_module(module, folder, settings, prefix, name))

        settings = (server.learner, case.variant, case.batch_size)
        learner = start("learner", _LEARNER, LearnerSettings(*settings, pull_bytes=_LEFT_CHUNKS * _CHUNK_BYTES))
        learner.hear("open", _START_SECONDS)
        actors = [
            start("actors", _ACTOR, _actor_settings(case, server, index), f" {index}") for index in range(case.actors)
        ]
        for process in (*actors, learner):
            process.hear("ready", _START_SECONDS)
        return _window(case, learner, actors, server.process, hosts)


def _window(case: Case, learner: Process, actors: Sequence[Process], server: Process, hosts: Hosts | None) -> Record:
    counters = []
    for moment in open_window((*actors, learner), case.seconds):
        time.sleep(max(0.0, moment - time.monotonic()))
        counters.append((_cpu_seconds(server.process_id), _sent(hosts) if hosts else {}, time.monotonic()))
    acted = [process.record(_START_SECONDS) for process in actors]
    total = hosts.sent_bytes("actors", "server") if hosts else 0
    learner.say("pull")
    learned = learner.record(_START_SECONDS)
    (cpu, sent, started), (cpu_after, sent_after, ended) = counters
    rates = {link: (sent_after[link] - sent[link]) / (ended - started) for link in sent}
    client = _redis_client() if case.variant in REDIS_VARIANTS else None
    return Record(case, learned, acted, (cpu_after - cpu) / (ended - started), rates, total, client)


def _server(case: Case, hosts: Hosts | None, folder: Path) -> AbstractContextManager[_Running]:
    if case.transport == "memif":
        return _start_polling_server(case.actors + 1, folder)
    start = _start_redis if case.variant in REDIS_VARIANTS else _start_server
    if hosts:
        ends = hosts.address("server", "learner"), hosts.address("server", "actors"), "0.0.0.0"
        return start(hosts.command("server"), *ends, folder)
    return start([], _LOCAL, _LOCAL, "" if case.transport == "unix" else _LOCAL, folder)


def _actor_settings(case: Case, server: _Running, index: int) -> ActorSettings:
    return ActorSettings(
        endpoint=server.actors,
        index=index,
        kind=case.kind,
        sampled_by_server=case.variant == "server",
        frames_per_second=_FRAMES_PER_SECOND,
        fill_chunks=-(-_FILL_CHUNKS // case.actors),
        left_chunks=-(-_LEFT_CHUNKS // case.actors),
    )


def _sent(hosts: Hosts) -> dict[str, int]:
    pairs = [("actors", "server"), ("server", "actors"), ("server", "learner"), ("learner", "server")]
    return {f"{one}-{other}": hosts.sent_bytes(one, other) for one, other in pairs}


def _cpu_seconds(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _redis_client() -> str:
    """The client library of Redis and the parser of its answers: hiredis, in C, if it is installed."""
    from redis.utils import HIREDIS_AVAILABLE

    parser = f"hiredis {version('hiredis')}" if HIREDIS_AVAILABLE else "its own parser, in Python"
    return f"redis-py {version('redis')}, {parser}"


@contextlib.contextmanager
def _start_redis(
    prefix: Sequence[str], learner_sees: str, actors_see: str, listens: str, folder: Path
) -> Iterator[_Running]:
    """A Redis that keeps nothing on disk; raises ConfigError if there is no redis-server."""
    program = shutil.which(REDIS)
    if program is None:
        raise ConfigError(f"{REDIS} is not there; the published baseline needs it: apt-get install {REDIS}")
    port = _HOST_PORT if prefix else _free_port()
    command = [*prefix, program, "--port", str(port), "--bind", listens, "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no", "--protected-mode", "no", "--daemonize", "no"]
    with Process(REDIS, command, folder / "redis.log") as process:
        while "eady to accept connections" not in process.listen(_REDIS_SECONDS):
            pass
        yield _Running(process, *(Endpoint(f"redis://{host}:{port}", _RUN) for host in (learner_sees, actors_see)))


@contextlib.contextmanager
def _start_server(
    prefix: Sequence[str], learner_sees: str, actors_see: str, listens: str, folder: Path
) -> Iterator[_Running]:
    """`headrace serve`; an empty `listens` means a Unix socket. TCP needs a token except on loopback, so it has one."""
    token_file, options = "", []
    if listens:
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        token_file = str(token)
        listen, options = f"tcp://{listens}:{_HOST_PORT if prefix else 0}", ["--token-file", token_file]
    else:
        listen = f"unix:{folder / 'server.sock'}"
    with serve(folder, [listen], prefix, options) as (process, (bound,)):
        port = bound.rpartition(":")[2]
        seen = [f"tcp://{host}:{port}" for host in (learner_sees, actors_see)] if listens else [bound] * 2
        yield _Running(process, *(Endpoint(address, _RUN, token_file) for address in seen))


@contextlib.contextmanager
def _start_polling_server(clients: int, folder: Path) -> Iterator[_Running]:
    """`headrace serve` over memif, for this many processes."""
    address = f"dpdk:memif,socket={folder / 'memif'},ip=10.77.0.1/24,links={clients}"
    with serve(folder, [address]) as (process, _):
        yield _Running(process, *[Endpoint(address, _RUN)] * 2)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
