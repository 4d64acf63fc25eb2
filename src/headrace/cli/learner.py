"""`headrace learner`: a run whose actors are started separately, on any machine."""

import shlex
from collections.abc import Sequence

from headrace.cli.train import TrainOptions, read_options, start
from headrace.errors import ConfigError
from headrace.servers import shown
from headrace.settings import ServerConfig

__all__ = ["run"]

_PROG = "headrace learner"


def run(arguments: Sequence[str]) -> int:
    """Trains on a server with actors that are started separately; returns the exit code."""
    options = read_options(
        arguments, _PROG, "Train on a server, with actors that are started separately by `headrace actor`."
    )
    address = options.server.address
    if address is None:
        raise ConfigError(
            "server is missing; headrace learner needs the address of a server that actors can reach too: "
            f"{_PROG} --server ADDRESS {options.environment} (one process alone: headrace train)"
        )
    if not options.topology.takes_separate_actors:
        raise ConfigError(
            f"topology is {options.topology.name}; with {_PROG}, whose actors are started separately, it must be apex "
            "(headrace train runs the other topologies)"
        )
    command = _actor_command(shown(address), options)
    hint = f"actors get all settings from the server; start them on any machine that can reach it:\n  {command}"
    if shown(address) != address:
        hint += "\nthe password is not shown; actors need it too, in the address or, better, by --token-file FILE"
    return start(options, local_actors=False, hint=hint)


def _actor_command(address: str, options: TrainOptions) -> str:
    """The command that starts actors of this run on a machine where the server has the same address."""
    server = options.server
    words = ["headrace", "actor", "--server", address]
    if server.run != ServerConfig().run:
        words += ["--run", server.run]
    if server.token_file is not None:
        words += ["--token-file", str(server.token_file)]
    return shlex.join([*words, "--actors", str(options.topology.actor_count(options.algorithm))])
