"""`headrace serve` in a separate process for a benchmark."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ADDRESSES", "listening_on", "standing_server"]

ADDRESSES = {"unix": "unix:@", "tcp": "tcp://127.0.0.1:0"}
"""Addresses to listen on, by transport; the server picks name and port."""
_PREFIX = "listening on "


@contextmanager
def standing_server() -> Iterator[dict[str, str]]:
    """A context with a server; its value is the addresses by transport."""
    command = [sys.executable, "-m", "headrace", "serve", "--quiet"]
    for address in ADDRESSES.values():
        command += ["--listen", address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield {transport: listening_on(server.stdout.readline()) for transport in ADDRESSES}
        finally:
            server.terminate()


def listening_on(line: str) -> str:
    """The address in a server's first output; raises RuntimeError for any other output."""
    if not line.startswith(_PREFIX):
        raise RuntimeError(f"headrace serve printed {line!r}; an address was expected")
    return line.removeprefix(_PREFIX).strip()
