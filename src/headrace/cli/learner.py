"""`headrace learner`: a run whose actors or workers are started separately, on any machine."""

import shlex
from collections.abc import Sequence

from headrace.cli.train import TrainOptions, read_options, start
from headrace.errors import ConfigError
from headrace.servers import shown
from headrace.settings import ServerConfig
from headrace.topologies.registry import TOPOLOGIES

__all__ = ["run"]

_PROG = "headrace learner"


def run(arguments: Sequence[str]) -> int:
    """Trains on a server with actors or workers that are started separately; returns the exit code."""
    options = read_options(
        arguments,
        _PROG,
        "Train on a server; `headrace actor` or `headrace worker` starts the actors or workers separately.",
    )
    kind = options.topology.acting_kind
    if not options.topology.takes_server:
        raise ConfigError(
            f"topology is {options.topology.name}, which is all on one machine: headrace train runs it, and {_PROG} "
            f"takes topology {TOPOLOGIES.names_where(lambda kind: kind.takes_server)}"
        )
    address = options.server.address
    if address is None:
        raise ConfigError(
            f"server is missing; {_PROG} needs the address of a server that {kind}s can reach too: "
            "add --server ADDRESS (one process alone: headrace train)"
        )
    command = _acting_command(shown(address), options)
    hint = f"{kind}s get all settings from the server; start them on any machine that can reach it:\n  {command}"
    if shown(address) != address:
        hint += f"\nthe password is not shown; {kind}s need it too, in the address or, better, by --token-file FILE"
    return start(options, local_actors=False, hint=hint)


def _acting_command(address: str, options: TrainOptions) -> str:
    """The command that starts the actors or workers of this run where the server has the same address."""
    server, kind = options.server, options.topology.acting_kind
    words = ["headrace", kind, "--server", address]
    if server.run != ServerConfig().run:
        words += ["--run", server.run]
    if server.token_file is not None:
        words += ["--token-file", str(server.token_file)]
    return shlex.join([*words, f"--{kind}s", str(options.topology.actor_count(options.algorithm))])
