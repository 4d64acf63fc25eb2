"""The server of a run."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import require
from headrace.fields import check_types
from headrace.servers.base import RECONNECT_SECONDS, SCHEMES, Endpoint, absolute, shown

__all__ = ["ServerConfig", "require_run_name"]

_SCHEMES = (*SCHEMES, "redis://")


def require_run_name(name: str) -> None:
    """Raises ConfigError if `name` can't be a run's name on a server."""
    holds = re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) is not None
    require("run", name or "empty", holds, "1 to 64 letters, digits, '.', '_' and '-'")


@dataclass(frozen=True)
class ServerConfig:
    """The server for a run's experience and parameters; without an address, one in the training process."""

    address: str | None = None
    """Separate server: tcp://HOST:PORT, unix:PATH, dpdk:KIND,... (docs/bypass.md), or redis://HOST:PORT[/DB]."""
    run: str = "default"
    """Name of the run on that server; several runs may share a server."""
    token_file: Path | None = None
    """File with the secret that the server requires."""

    def __post_init__(self) -> None:
        address = self.address
        if isinstance(address, str):
            require("server", shown(address), address.startswith(_SCHEMES), "tcp://, unix:, dpdk: or redis://")
            require("server", ascii(shown(address)), address.isprintable(), "an address that can be printed")
        else:
            require("server", address, address is None, "a string or none")
        check_types(self)
        require_run_name(self.run)
        if address is None:
            require("run", self.run, self.run == "default", "left out where no server is given")
            require("token_file", self.token_file, self.token_file is None, "left out where no server is given")

    @property
    def endpoint(self) -> Endpoint | None:
        """How roles connect to it; None for the server in the training process."""
        if self.address is None:
            return None
        token_file = str(self.token_file.absolute()) if self.token_file else ""
        return Endpoint(self.address, self.run, token_file, RECONNECT_SECONDS)

    def to_record(self) -> dict[str, Any]:
        """As JSON, with absolute paths, of a Unix socket too: a run may be resumed in another folder."""
        address, token_file = self.address, str(self.token_file.absolute()) if self.token_file else None
        return {"address": absolute(address) if address else None, "run": self.run, "token_file": token_file}
