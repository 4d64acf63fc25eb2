"""What a run is: environment, algorithm, topology, and when it stops."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_origin, get_type_hints

from headrace.algorithms.a3c.config import A3C
from headrace.algorithms.config import Algorithm
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.dyna_q.config import DynaQ
from headrace.errors import CheckpointError, ConfigError, require
from headrace.servers.base import shown
from headrace.settings.place import ServerPlace
from headrace.topologies.config import AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial, Topology

__all__ = ["ALGORITHMS", "TOPOLOGIES", "AlgorithmName", "RunConfig", "TopologyName"]

T = TypeVar("T")

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
    hang_seconds: float = 60.0
    """A process whose environment does not return for so long is killed and started again."""
    device: str = "auto"
    """Learner's torch device; auto is CUDA where there is a GPU."""
    place: ServerPlace = field(default_factory=ServerPlace)

    def __post_init__(self) -> None:
        for name in ("steps", "time_limit_seconds"):
            value = getattr(self, name)
            require(name, value, value is None or value > 0, "above 0")
        for name in (
            "evaluation_period_seconds",
            "evaluation_period_steps",
            "evaluation_episodes",
            "checkpoint_period_seconds",
            "hang_seconds",
        ):
            require(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        final = self.final_evaluation_episodes
        require("final_evaluation_episodes", final, final >= 0, "0 or more")
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
            record = json.loads(text)
            algorithm = dict(record.pop("algorithm"))
            topology = dict(record.pop("topology"))
            place = record.pop("place", None)  # not there in runs from before there were servers
            return RunConfig(
                algorithm=_settings(ALGORITHMS[algorithm.pop("name")], algorithm),
                topology=_settings(TOPOLOGIES[topology.pop("name")], topology),
                place=ServerPlace.from_record(place) if place else ServerPlace(),
                **record,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"config.json is not a run's configuration, or that of another version's ({error}); use the file the "
                "run wrote, and the version that wrote it"
            ) from error


def _settings(kind: type[T], record: dict[str, Any]) -> T:
    """Settings of a kind from JSON, which has lists where they have tuples."""
    hints = get_type_hints(kind)
    return kind(
        **{key: tuple(value) if get_origin(hints.get(key)) is tuple else value for key, value in record.items()}
    )
