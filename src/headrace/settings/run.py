"""The configuration of a run: environment, algorithm, topology, server and stopping rules."""

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

from headrace.algorithms.config import Algorithm, Engine
from headrace.algorithms.dqn.config import DQN
from headrace.algorithms.registry import ALGORITHMS
from headrace.errors import CheckpointError, ConfigError, require
from headrace.fields import MOST_STEPS, check_types, read_fields, read_object, require_positive, write_fields
from headrace.launch.config import LauncherConfig, Processes
from headrace.launch.registry import LAUNCHERS
from headrace.servers.base import shown
from headrace.settings.server import ServerConfig
from headrace.topologies.apex import Apex
from headrace.topologies.config import Topology
from headrace.topologies.registry import TOPOLOGIES

__all__ = ["MOST_EPISODES", "RunConfig"]

MOST_EPISODES = 1_000_000
"""Limit on the episodes of one evaluation."""
_MOST_SECONDS = 1e9


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run, as `config.json` of its run directory contains them."""

    environment: str
    """Gymnasium id, SUITE/TASK such as ALE/Pong-v5, or package.module:factory (docs/running.md)."""
    algorithm: Algorithm = field(default_factory=DQN)
    topology: Topology = field(default_factory=Apex)
    steps: int | None = None
    """Environment steps of all actors or workers after which the run stops."""
    time_limit_seconds: float | None = None
    """Training seconds (evaluations excluded) after which the run stops."""
    until_score: float | None = None
    """Mean return of 100 greedy episodes at which the run stops."""
    seed: int = 0
    """Seed of all random numbers of the run; with --topology serial, the same seed gives the same run."""
    evaluation_period_seconds: float = 30.0
    """Training time between evaluations (all topologies except serial); 0: by steps instead."""
    evaluation_period_steps: int = 10_000
    """Environment steps between evaluations, with topology serial or if evaluation_period_seconds is 0."""
    evaluation_episodes: int = 10
    """Greedy episodes of a periodic evaluation; a mean that reaches until_score is confirmed by 100 episodes."""
    final_evaluation_episodes: int = 100
    """Greedy episodes of the evaluation after training; 0 turns it off."""
    checkpoint_period_seconds: float = 300.0
    """Training time between checkpoints; the first ones are more frequent."""
    hang_seconds: float = 60.0
    """Time after which a process is killed and restarted if its environment does not return."""
    device: str = "auto"
    """Torch device of the learner; auto: a GPU, if there is one, for a CNN, a recurrent layer, your own network, or a
    hidden layer of 512 units or more; otherwise, and in a simulated run, the CPU."""
    learner_engine: Engine = "auto"
    """What computes the learner's networks; auto: native on the CPU for MLPs whose layers have at most 1,024 x 1,024
    weights, otherwise torch."""
    server: ServerConfig = field(default_factory=ServerConfig)
    launcher: LauncherConfig = field(default_factory=Processes)

    def __post_init__(self) -> None:
        ALGORITHMS.require_importable(self.algorithm)
        TOPOLOGIES.require_importable(self.topology)
        LAUNCHERS.require_importable(self.launcher)
        check_types(self)
        name = self.environment
        require("environment", ascii(name), name.strip() != "" and name.isprintable(), "a name that can be printed")
        for name, most in (("steps", MOST_STEPS), ("time_limit_seconds", _MOST_SECONDS)):
            if getattr(self, name) is not None:
                require_positive(self, name, most=most)
        require_positive(self, "checkpoint_period_seconds", "hang_seconds", most=_MOST_SECONDS)
        period = self.evaluation_period_seconds
        require("evaluation_period_seconds", period, 0 <= period <= _MOST_SECONDS, f"from 0 to {_MOST_SECONDS:g}")
        require_positive(self, "evaluation_period_steps", most=MOST_STEPS)
        require_positive(self, "evaluation_episodes", most=MOST_EPISODES)
        final = self.final_evaluation_episodes
        require("final_evaluation_episodes", final, final >= 0, "0 or more")
        require("final_evaluation_episodes", final, final <= MOST_EPISODES, f"at most {MOST_EPISODES:,}")
        require("seed", self.seed, 0 <= self.seed < 2**63, "between 0 and 2^63 - 1")
        own = self.launcher.server_setting
        if own and self.server.address is not None:
            raise ConfigError(f"server is {shown(self.server.address)} and {own} is given: leave one of them out")
        if own and not self.topology.takes_server:
            raise ConfigError(f"{own} is given and topology is {self.topology.name}, which uses no server")
        if self.server.address is not None and not self.launcher.takes_server:
            raise ConfigError(
                f"server is {shown(self.server.address)} and launcher is {self.launcher.name}: leave the server out"
            )
        if self.server.address is not None and not self.topology.takes_server:
            able = TOPOLOGIES.names_where(lambda kind: kind.takes_server)
            raise ConfigError(
                f"server is {shown(self.server.address)} and topology is {self.topology.name}, which is all on one "
                f"machine: leave the server out, or take topology {able}"
            )

    def require_effect(self, setting: str) -> None:
        """Raises ConfigError if a setting that the user gives has no effect next to the others."""
        algorithm, topology = type(self.algorithm), type(self.topology)
        if setting in algorithm.unused_settings:
            raise ConfigError(
                f"{setting} is given, and algorithm is {algorithm.name}, on which it has no effect: leave it out"
            )
        unused = topology.unused_settings(algorithm)
        if setting in unused:
            able = TOPOLOGIES.names_where(lambda kind: setting not in kind.unused_settings(algorithm))
            raise ConfigError(
                f"{setting} is given, and topology is {topology.name}, where it has no effect: leave it out, or take "
                f"topology {able}"
            )
        period = self.evaluation_period_seconds
        if setting == "evaluation_period_steps" and period and "evaluation_period_seconds" not in unused:
            raise ConfigError(
                f"{setting} is given, and evaluation_period_seconds is {period:g}, so that it has no effect: leave it "
                "out, or set evaluation_period_seconds to 0"
            )
        if setting == "hidden" and self.algorithm.own_network:
            raise ConfigError(
                f"{setting} is given, and network is {self.algorithm.network}, which has its own layers: leave it out"
            )

    def with_rules(self, steps: int | None, time_limit_seconds: float | None, until_score: float | None) -> "RunConfig":
        """The configuration with these stopping rules; None keeps its own."""
        return dataclasses.replace(
            self,
            steps=self.steps if steps is None else steps,
            time_limit_seconds=self.time_limit_seconds if time_limit_seconds is None else time_limit_seconds,
            until_score=self.until_score if until_score is None else until_score,
        )

    def to_json(self) -> str:
        """The configuration as JSON; from_json() reads it back."""
        names = [field.name for field in dataclasses.fields(RunConfig)]  # a subclass may have more fields
        record = write_fields(self)
        return json.dumps({name: record[name] for name in names}, indent=2) + "\n"

    @staticmethod
    def from_json(text: str, path: Path | str = "config.json") -> "RunConfig":
        """Reads the output of to_json() from `path`; raises CheckpointError for any other text."""
        try:
            return read_fields(RunConfig, read_object(text, "the file"))
        except ConfigError as error:
            raise CheckpointError(
                f"{path} is not a run's configuration, or that of another version ({error}); use the file that "
                "the run wrote, with the version of Headrace, and the packages that add algorithms, that wrote it"
            ) from error
