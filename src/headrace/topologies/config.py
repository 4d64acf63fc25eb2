"""Settings of the topologies: which roles there are and how they are wired."""

from dataclasses import dataclass

from headrace.errors import require

__all__ = ["Apex", "Serial", "Topology"]


@dataclass(frozen=True)
class Serial:
    """One process acts and learns in turn: bit for bit the same for the same seed."""

    envs_per_actor: int = 1
    """Environments stepped together, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk."""

    def __post_init__(self) -> None:
        _require_positive(self, "envs_per_actor", "chunk_steps")

    @property
    def actors(self) -> int:
        """One: the training process itself."""
        return 1


@dataclass(frozen=True)
class Apex:
    """Actor processes send prioritized experience to one learner (Horgan et al. 2018).

    Environment i of all N = actors x envs_per_actor explores with the fixed
    epsilon_i = epsilon_base ** (1 + epsilon_exponent * i / (N - 1)).
    """

    actors: int | None = None
    """Actor processes; none given is one for each processor core but the learner's, at least one."""
    envs_per_actor: int = 16
    """Environments stepped together by each actor, with one batched inference (E)."""
    chunk_steps: int = 50
    """Transitions per chunk (Horgan et al. 2018, appendix)."""
    pull_period: int = 400
    """Environment steps of an actor between looks for newer parameters (Horgan et al. 2018)."""
    epsilon_base: float = 0.4
    epsilon_exponent: float = 7.0
    batches_ahead: int = 4
    """Batches that a native thread keeps ready for the learner."""

    def __post_init__(self) -> None:
        _require_positive(self, "envs_per_actor", "chunk_steps", "pull_period")
        if self.actors is not None:
            _require_positive(self, "actors")
        require("batches_ahead", self.batches_ahead, self.batches_ahead >= 2, "2 or more")
        require("epsilon_base", self.epsilon_base, 0 <= self.epsilon_base <= 1, "between 0 and 1")
        require("epsilon_exponent", self.epsilon_exponent, self.epsilon_exponent >= 0, "0 or more")


Topology = Serial | Apex


def _require_positive(config: object, *fields: str) -> None:
    for field in fields:
        value = getattr(config, field)
        require(field, value, value > 0, "above 0")
