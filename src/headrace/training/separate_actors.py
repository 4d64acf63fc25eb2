"""How the actors or workers of a run are started separately."""

import shlex

from headrace.servers import shown
from headrace.settings import RunConfig, ServerConfig

__all__ = ["how_to_start"]


def how_to_start(config: RunConfig) -> str:
    """What the user must do for a run on a separate server whose actors or workers are started separately."""
    address, kind = config.server.address, config.topology.acting_kind
    assert address is not None
    hint = (
        f"{kind}s get all settings from the server; start them on any machine that can reach it:\n  {_command(config)}"
    )
    if shown(address) != address:
        hint += f"\nthe password is not shown; {kind}s need it too, in the address or, better, by --token-file FILE"
    return hint


def _command(config: RunConfig) -> str:
    """The command where the server has the same address."""
    server, kind = config.server, config.topology.acting_kind
    assert server.address is not None
    words = ["headrace", kind, "--server", shown(server.address)]
    if server.run != ServerConfig().run:
        words += ["--run", server.run]
    if server.token_file is not None:
        words += ["--token-file", str(server.token_file)]
    return shlex.join([*words, f"--{kind}s", str(config.topology.actor_count(config.algorithm))])
