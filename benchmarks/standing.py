"""`headrace serve` in a separate process for a benchmark."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["ADDRESSES", "listening_on", "standing_server", "token_server"]

ADDRESSES = {"unix": "unix:@", "tcp": "tcp://127.0.0.1:0"}
"""Addresses to listen on, by transport; the server picks name and port."""
_PREFIX = "listening on "


@contextmanager
def standing_server() -> Iterator[dict[str, str]]:
    """A context with a server; its value is the addresses by transport."""
    with _serving(*(f"--listen={address}" for address in ADDRESSES.values())) as server:
        assert server.stdout is not None
        yield {transport: listening_on(server.stdout.readline()) for transport in ADDRESSES}


@contextmanager
def token_server(token_file: Path) -> Iterator[tuple[str, int]]:
    """A context with a server on TCP that requires the token; its value is the address and the process id."""
    with _serving(f"--listen={ADDRESSES['tcp']}", f"--token-file={token_file}") as server:
        assert server.stdout is not None
        yield listening_on(server.stdout.readline()), server.pid


@contextmanager
def _serving(*options: str) -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-m", "headrace", "serve", "--quiet", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.terminate()


def listening_on(line: str) -> str:
    """The address in a server's first output; raises RuntimeError for any other output."""
    if not line.startswith(_PREFIX):
        raise RuntimeError(f"headrace serve printed {line!r}; an address was expected")
    return line.removeprefix(_PREFIX).strip()
