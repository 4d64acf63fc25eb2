"""What a run is: environment, algorithm, topology, and when it stops."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Algorithm
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.errors import CheckpointError, ConfigError, require
from headrace.fields import MOST_STEPS, check_types, errors_of, read_fields, read_object, require_positive
from headrace.servers.base import shown
from headrace.settings.place import ServerPlace
from headrace.topologies.config import AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial, Topology

__all__ = ["ALGORITHMS", "MOST_EPISODES", "TOPOLOGIES", "AlgorithmName", "RunConfig", "TopologyName"]

T = TypeVar("T")
N = TypeVar("N", bound=str)

MOST_EPISODES = 1_000_000
"""Of one evaluation."""
_MOST_SECONDS = 1e9

AlgorithmName = Literal["dqn", "dyna-q", "d4pg", "a3c"]
TopologyName = Literal["apex", "serial", "parameter-server", "lock", "hogwild", "ad-psgd"]

ALGORITHMS: dict[AlgorithmName, type[Algorithm]] = {"dqn": DQN, "dyna-q": DynaQ, "d4pg": D4PG, "a3c": A3C}
TOPOLOGIES: dict[TopologyName, type[Topology]] = {
    "apex": Apex,
    "serial": Serial,
    "parameter-server": ParameterServer,
    "lock": Lock,
    "hogwild": Hogwild,
    "ad-psgd": AdPsgd,
}


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
    place: ServerPlace = field(default_factory=ServerPlace)

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
        if self.place.server is not None and not isinstance(self.topology, Apex | ParameterServer):
            raise ConfigError(
                f"server is {shown(self.place.server)} and topology is {self.topology_name}, which is all on one "
                "machine: leave the server out, or take topology apex or parameter-server"
            )

    @property
    def algorithm_name(self) -> str:
        """As the command line has it."""
        return next(name for name, kind in ALGORITHMS.items() if type(self.algorithm) is kind)

    @property
    def topology_name(self) -> str:
        """As the command line has it."""
        return next(name for name, kind in TOPOLOGIES.items() if isinstance(self.topology, kind))

    def to_json(self) -> str:
        """The configuration as JSON; from_json() reads it back."""
        record: dict[str, Any] = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        record["algorithm"] = {"name": self.algorithm_name, **dataclasses.asdict(self.algorithm)}
        record["topology"] = {"name": self.topology_name, **dataclasses.asdict(self.topology)}
        record["place"] = self.place.to_record()
        return json.dumps(record, indent=2) + "\n"

    @staticmethod
    def from_json(text: str) -> "RunConfig":
        """Reads what to_json() wrote; raises CheckpointError where it is not that."""
        try:
            record = read_object(text, "the file")
            place = record.pop("place", {})  # not there in runs from before there were servers
            return read_fields(
                RunConfig,
                record,
                algorithm=_chosen("algorithm", ALGORITHMS, record.pop("algorithm", None)),
                topology=_chosen("topology", TOPOLOGIES, record.pop("topology", None)),
                place=_place(place),
            )
        except ConfigError as error:
            raise CheckpointError(
                f"config.json is not a run's configuration, or that of another version's ({error}); use the file the "
                "run wrote, and the version that wrote it"
            ) from error


def _place(record: object) -> ServerPlace:
    with errors_of("place"):
        return read_fields(ServerPlace, record)


def _chosen(field: str, kinds: Mapping[N, type[T]], record: object) -> T:
    """Settings from JSON, whose name says of which kind they are."""
    settings = dict(record) if isinstance(record, dict) else {}
    name = settings.pop("name", None)
    found = [kind for known, kind in kinds.items() if known == name]
    require(f"{field}.name", repr(name), len(found) == 1, f"one of {', '.join(kinds)}")
    with errors_of(field):
        return read_fields(found[0], settings)
