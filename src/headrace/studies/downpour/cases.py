"""The settings of the measurements of this study."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from headrace.algorithms.dqn.config import DQN
from headrace.fields import write_fields
from headrace.report.formats import counted
from headrace.studies.sheet import fingerprint
from headrace.topologies.config import ParameterServer, Serial

__all__ = ["ONG", "STALENESS_LIMIT", "ScalingCase", "TimingCase", "TrainingCase", "Transport"]

Transport = Literal["shared", "unix", "tcp"]
"""Gradients in memory shared with the server, in frames over a Unix socket, or over TCP on this machine's loopback."""

STALENESS_LIMIT = 8
"""Low enough for the policy "drop" to drop gradients at the longer fetch periods."""

ONG = DQN(
    network="ong",
    hidden=(512,),
    n_step=1,
    prioritized=False,
    double=False,
    discount=0.85,
    learning_rate=1e-4,
    optimizer="rmsprop",
    optimizer_decay=0.9,
    batch_size=32,
    target_update_period=10,
    replay_capacity=30_000,
    learning_starts=20_000,
    samples_per_step=32.0,
    epsilon_final=0.1,
    epsilon_decay_steps=50_000,
    loss="squared",
    max_gradient_norm=0.0,
)
"""Their settings (published/settings.csv), with one update for each step.

Two things differ. Their epsilon decays over 50,000 updates, ours over 50,000 environment steps: the first 20,000 steps
have no update, and at the first update epsilon is 0.64. Our first 20,000 steps use that schedule, theirs a random
policy. Loss and clipping are not stated; ours are those of plain Q-learning.
"""


@dataclass(frozen=True)
class TimingCase:
    """One worker with their network: a loop of gradient, push and fetch; then pushes alone."""

    pixels: int
    transport: Transport
    seconds: float
    """Duration of each of the two loops, which have at least a few turns."""
    round: int

    def __str__(self) -> str:
        return f"{self.pixels} x {self.pixels} pixels, {self.transport}"

    @property
    def name(self) -> str:
        """The same for the same settings."""
        return fingerprint("timing", [dataclasses.asdict(self), dataclasses.asdict(ONG)])


@dataclass(frozen=True)
class ScalingCase:
    """Processes that push gradients without computing them, and fetch after each one or never."""

    pixels: int
    transport: Transport
    pushers: int
    shards: int
    fetches: bool
    seconds: float
    round: int

    def __str__(self) -> str:
        fetches = ", with fetches" if self.fetches else ""
        return f"{self.transport}, {counted(self.pushers, 'pusher')}, {counted(self.shards, 'shard')}{fetches}"

    @property
    def name(self) -> str:
        """The same for the same settings."""
        return fingerprint("scaling", [dataclasses.asdict(self), dataclasses.asdict(ONG)])


@dataclass(frozen=True)
class TrainingCase:
    """One run of headrace.train."""

    label: str
    """Origin of the settings: "published" or "ours"."""
    environment: str
    algorithm: DQN
    topology: Serial | ParameterServer
    seed: int
    steps: int
    """Total environment steps of all workers."""
    evaluation_period_seconds: float
    evaluation_period_steps: int
    evaluation_episodes: int

    def __str__(self) -> str:
        return f"{self.label} settings, {self.system}, seed {self.seed}"

    @property
    def name(self) -> str:
        """The same for the same settings."""
        record: dict[str, Any] = {"topology_name": self.topology.name, **dataclasses.asdict(self)}
        return fingerprint("training", record)

    @property
    def workers(self) -> int:
        """Processes that act and learn."""
        return self.topology.acting_processes

    @property
    def environments(self) -> int:
        """Environments that each process steps together."""
        return self.topology.environments_each

    @property
    def system(self) -> str:
        """The topology and its main settings in words."""
        if self.served is None:
            return "serial"
        return (
            f"parameter-server, {counted(self.workers, 'worker')}, "
            f"fetch period {self.served['fetch_period']}, {self.served['staleness']}"
        )

    @property
    def served(self) -> dict[str, Any] | None:
        """Settings of the parameter server, if there is one."""
        return write_fields(self.topology) if self.topology.has_workers else None
