"""`headrace learner`: a run whose actors or workers are started separately, on any machine."""

from collections.abc import Sequence

from headrace.cli.train import read_options, start
from headrace.errors import ConfigError
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
    if options.server.address is None:
        raise ConfigError(
            f"server is missing; {_PROG} needs the address of a server that {kind}s can reach too: "
            "add --server ADDRESS (one process alone: headrace train)"
        )
    return start(options, local_actors=False)
