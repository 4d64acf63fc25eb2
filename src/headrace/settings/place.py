"""Where a run's server is."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import require
from headrace.fields import check_types
from headrace.servers.base import Endpoint, shown

__all__ = ["ServerPlace", "require_run_name"]

_SCHEMES = ("tcp://", "unix:", "redis://")
_RECONNECT_SECONDS = 60.0


def require_run_name(name: str) -> None:
    """Raises ConfigError for what can't be the name of a run on a server."""
    holds = re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) is not None
    require("run", name or "empty", holds, "1 to 64 letters, digits, '.', '_' and '-'")


@dataclass(frozen=True)
class ServerPlace:
    """The server that a run's experience and parameters go through; none given is one of the run's own."""

    server: str | None = None
    """Server that stands alone: tcp://HOST:PORT, unix:PATH, or redis://HOST:PORT[/DB]; none is the run's own."""
    run: str = "default"
    """The run's name on that server, which several may share."""
    token_file: Path | None = None
    """File with the secret that the server asks for."""

    def __post_init__(self) -> None:
        check_types(self)
        server = self.server
        if server is not None:
            require("server", shown(server), server.startswith(_SCHEMES), "tcp://, unix: or redis://")
        require_run_name(self.run)
        if server is None:
            require("run", self.run, self.run == "default", "left out where no server is given")
            require("token_file", self.token_file, self.token_file is None, "left out where no server is given")

    @property
    def endpoint(self) -> Endpoint | None:
        """How roles reach it; None for the run's own."""
        if self.server is None:
            return None
        token_file = str(self.token_file.absolute()) if self.token_file else ""
        return Endpoint(self.server, self.run, token_file, _RECONNECT_SECONDS)

    def to_record(self) -> dict[str, Any]:
        """The place as JSON has it."""
        token_file = str(self.token_file.absolute()) if self.token_file else None
        return {"server": self.server, "run": self.run, "token_file": token_file}
