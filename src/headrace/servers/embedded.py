"""The run's own server, in the training process."""

from typing import Any

from headrace._native import Server, Signature
from headrace.replay.table import Table
from headrace.servers.base import Endpoint

__all__ = ["EmbeddedServer"]


class EmbeddedServer:
    """Implements `RunServer`: the training process calls it directly, roles connect over a Unix socket."""

    def __init__(self) -> None:
        self._server = Server()
        self._endpoint = Endpoint(self._server.listen("unix:@"))

    @property
    def endpoint(self) -> Endpoint:
        """A socket that only this user's processes on this machine can connect to."""
        return self._endpoint

    @property
    def keeps_experience(self) -> bool:
        """False: experience ends with the process."""
        return False

    @property
    def serves_samples(self) -> bool:
        """True."""
        return True

    def begin(self, *, fresh: bool) -> None:
        """No effect: there was no earlier start."""

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

    def restarted(self) -> bool:
        """False: it lives as long as its run."""
        return False

    def outages(self) -> int:
        """0: there is no connection to lose."""
        return 0

    def close(self) -> None:
        """Closes tables and connections."""
        self._server.close()
