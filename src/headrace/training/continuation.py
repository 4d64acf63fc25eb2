"""Where a resumed run finds its experience, and what its user is told about it."""

from typing import NamedTuple

from headrace.environments import repeats_episodes
from headrace.servers import Endpoint, shown
from headrace.settings import RunConfig
from headrace.topologies.base import Program

__all__ = ["Continuation"]


class Continuation(NamedTuple):
    """With what a run goes on."""

    from_checkpoint: bool
    """Whether the checkpoint has the experience."""
    notes: list[str]
    """Lines for the display."""

    @staticmethod
    def of(config: RunConfig, program: Program, server: Endpoint | None, size: int) -> "Continuation":
        """The continuation of a run; `server` is a separate one that keeps experience, `size` its transitions now."""
        there = server is not None and (size > 0 or not config.topology.has_workers)
        notes = []
        if server is not None and there:
            notes.append(
                f"continues with the {size:,} transitions that run {server.run} has on {shown(server.address)}"
            )
        elif not program.saves_experience and not program.deterministic:
            notes.append("resumes with the learned parameters; the workers gather new experience")
        if program.deterministic and not repeats_episodes(config.environment):
            notes.append(
                f"{config.environment} can't repeat its open episodes: each environment begins a new one, and its last "
                "transitions, up to one chunk, are lost"
            )
        return Continuation(program.saves_experience and not there, notes)
