"""What a run is: environment, algorithm, topology, and when it stops."""

import dataclasses
import json
from dataclasses import dataclass, field

from headrace.algorithms.config import Algorithm
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.registry import require_registered
from headrace.errors import CheckpointError, ConfigError, require
from headrace.fields import MOST_STEPS, check_types, read_fields, read_object, require_positive, write_fields
from headrace.servers.base import shown
from headrace.settings.server import ServerConfig
from headrace.topologies.config import TOPOLOGIES, Apex, Topology

__all__ = ["MOST_EPISODES", "RunConfig"]

MOST_EPISODES = 1_000_000
"""Of one evaluation."""
_MOST_SECONDS = 1e9


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run; `config.json` of a run directory holds exactly this."""

    environment: str
    """Gymnasium id, dm_control/DOMAIN-TASK, ALE/... for Atari, or package.module:factory."""
    algorithm: Algorithm = field(default_factory=DQN)
    topology: Topology = field(default_factory=Apex)
    steps: int | None = None
    """Environment steps of all actors or workers after which the run stops."""
    time_limit_seconds: float | None = None
    """Training seconds (evaluations excluded) after which the run stops."""
    until_score: float | None = None
    """Stop once 100 greedy episodes average at least this."""
    seed: int = 0
    evaluation_period_seconds: float = 30.0
    """Training time between evaluations (all topologies but serial)."""
    evaluation_period_steps: int = 10_000
    """Environment steps between evaluations (serial, where time must not decide anything)."""
    evaluation_episodes: int = 10
    """Greedy episodes of a periodic evaluation; one that reaches until_score is confirmed by 100."""
    final_evaluation_episodes: int = 100
    """Greedy episodes at the end; 0 leaves the evaluation out."""
    checkpoint_period_seconds: float = 300.0
    """Training time between checkpoints; at first they come more often."""
    hang_seconds: float = 60.0
    """A process whose environment does not return for so long is killed and started again."""
    device: str = "auto"
    """Learner's torch device; auto is CUDA where there is a GPU."""
    server: ServerConfig = field(default_factory=ServerConfig)

    def __post_init__(self) -> None:
        check_types(self)
        name = self.environment
        require("environment", ascii(name), name.strip() != "" and name.isprintable(), "a name that can be printed")
        for name, most in (("steps", MOST_STEPS), ("time_limit_seconds", _MOST_SECONDS)):
            if getattr(self, name) is not None:
                require_positive(self, name, most=most)
        periods = ("evaluation_period_seconds", "checkpoint_period_seconds", "hang_seconds")
        require_positive(self, *periods, most=_MOST_SECONDS)
        require_positive(self, "evaluation_period_steps", most=MOST_STEPS)
        require_positive(self, "evaluation_episodes", most=MOST_EPISODES)
        final = self.final_evaluation_episodes
        require("final_evaluation_episodes", final, final >= 0, "0 or more")
        require("final_evaluation_episodes", final, final <= MOST_EPISODES, f"at most {MOST_EPISODES:,}")
        require("seed", self.seed, 0 <= self.seed < 2**63, "between 0 and 2^63 - 1")
        require_registered(self.algorithm)
        if self.server.address is not None and not self.topology.takes_server:
            able = " or ".join(name for name, kind in TOPOLOGIES.items() if kind.takes_server)
            raise ConfigError(
                f"server is {shown(self.server.address)} and topology is {self.topology.name}, which is all on one "
                f"machine: leave the server out, or take topology {able}"
            )

    def to_json(self) -> str:
        """The configuration as JSON; from_json() reads it back."""
        names = [field.name for field in dataclasses.fields(RunConfig)]  # a subclass may have others
        record = write_fields(self)
        return json.dumps({name: record[name] for name in names}, indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "RunConfig":
        """Reads what to_json() wrote; raises CheckpointError if it is something else."""
        try:
            return read_fields(RunConfig, read_object(text, "the file"))
        except ConfigError as error:
            raise CheckpointError(
                f"config.json is not a run's configuration, or that of another version ({error}); use the file that "
                "the run wrote, with the version of Headrace, and the packages that add algorithms, that wrote it"
            ) from error
