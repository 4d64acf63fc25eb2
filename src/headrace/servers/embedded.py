"""The run's own server, in the training process."""

from typing import Any

from headrace._native import Server, Signature
from headrace.machine import raise_descriptor_limit
from headrace.replay.table import Table
from headrace.servers.base import Endpoint, RunServer

__all__ = ["EmbeddedServer"]


class EmbeddedServer(RunServer):
    """The training process calls it directly, roles connect to `address`: a Unix socket, or TCP with a `token`."""

    def __init__(self, address: str = "unix:@", token: str = "", reconnect_seconds: float = 0.0) -> None:
        raise_descriptor_limit()  # each connection takes up to two descriptors
        self._server = Server(token=token.encode() if token else None)
        self._endpoint = Endpoint(self._server.listen(address), token=token, reconnect_seconds=reconnect_seconds)

    @property
    def endpoint(self) -> Endpoint:
        """By default a socket that only this user's processes on this machine can connect to."""
        return self._endpoint

    def add_table(self, name: str, signature: Signature, *, fresh: bool, **options: Any) -> Table:
        """Adds an empty table. `fresh` has no effect, since there is no earlier experience."""
        del fresh
        return Table.of(self._server.add_table(name, signature, **options))

    def publish(self, name: str, data: bytes | memoryview, version: int = 0) -> int:
        """Replaces a blob; see `ParameterStore`."""
        return self._server.publish(name, data, version)

    def fetch(self, name: str, newer_than: int = 0) -> tuple[int, bytes] | None:
        """A newer blob; see `ParameterStore`."""
        return self._server.fetch(name, newer_than)

    def drain(self, mailbox: str) -> list[bytes]:
        """Messages that have arrived since the last call."""
        return self._server.drain(mailbox)

    def close(self) -> None:
        """Closes tables and connections."""
        self._server.close()
