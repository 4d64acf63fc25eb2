"""The server's process: Headrace's, or a Redis."""

import contextlib
import secrets
import shutil
import socket
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from headrace.errors import ConfigError
from headrace.servers.base import Endpoint
from headrace.studies.processes import Process, serve

__all__ = ["REDIS", "Running", "redis_client", "start_polling_server", "start_redis", "start_server"]

REDIS = "redis-server"
_START_SECONDS = 20.0
_RUN = "study"
_HOST_PORT = 7447  # free on a host that we create


class Running(NamedTuple):
    """A server's process, and how the learner and the actors reach it."""

    process: Process
    learner: Endpoint
    actors: Endpoint


def redis_client() -> str:
    """The client library of Redis and the parser of its answers: hiredis, in C, if it is installed."""
    from redis.utils import HIREDIS_AVAILABLE

    parser = f"hiredis {version('hiredis')}" if HIREDIS_AVAILABLE else "its own parser, in Python"
    return f"redis-py {version('redis')}, {parser}"


@contextlib.contextmanager
def start_redis(
    prefix: Sequence[str], learner_sees: str, actors_see: str, listens: str, folder: Path
) -> Iterator[Running]:
    """A Redis that keeps nothing on disk; raises ConfigError if there is no redis-server."""
    program = shutil.which(REDIS)
    if program is None:
        raise ConfigError(f"{REDIS} is not there; the published baseline needs it: apt-get install {REDIS}")
    port = _HOST_PORT if prefix else _free_port()
    command = [*prefix, program, "--port", str(port), "--bind", listens, "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no", "--protected-mode", "no", "--daemonize", "no"]
    with Process(REDIS, command, folder / "redis.log") as process:
        while "eady to accept connections" not in process.listen(_START_SECONDS):
            pass
        yield Running(process, *(Endpoint(f"redis://{host}:{port}", _RUN) for host in (learner_sees, actors_see)))


@contextlib.contextmanager
def start_server(
    prefix: Sequence[str], learner_sees: str, actors_see: str, listens: str, folder: Path
) -> Iterator[Running]:
    """`headrace serve`; an empty `listens` means a Unix socket. TCP needs a token except on loopback, so it has one."""
    token_file, options = "", []
    if listens:
        port = _HOST_PORT if prefix else _free_port()
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        token_file = str(token)
        listen, options = f"tcp://{listens}:{port}", ["--token-file", token_file]
        addresses = [f"tcp://{learner_sees}:{port}", f"tcp://{actors_see}:{port}"]
    else:
        listen = f"unix:{folder / 'server.sock'}"
        addresses = [listen] * 2
    with serve(folder, [listen], prefix, options) as (process, _):
        yield Running(process, *(Endpoint(address, _RUN, token_file) for address in addresses))


@contextlib.contextmanager
def start_polling_server(clients: int, folder: Path) -> Iterator[Running]:
    """`headrace serve` over memif, for this many processes."""
    address = f"dpdk:memif,socket={folder / 'memif'},ip=10.77.0.1/24,links={clients}"
    with serve(folder, [address]) as (process, _):
        yield Running(process, *[Endpoint(address, _RUN)] * 2)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
