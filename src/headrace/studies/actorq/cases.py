"""The one table of what is trained: for each task the network, the replay ratio, the length, and the target.

Without a GPU the learner holds a run of D4PG at the published size, 3 x 2048: there the control suite's policies have
256 x 256, and the learner is as fast as the actors or slower. CartPole-v1 is trained at the published size with so few
samples per step that the actors hold the run. With a GPU the published size is taken throughout.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.algorithms.config import OffPolicy
from headrace.algorithms.d4pg.config import D4PG
from headrace.algorithms.dqn.config import DQN
from headrace.networks.precision import Precision
from headrace.settings import ALGORITHMS, preset
from headrace.studies.actorq.tasks import TASKS, published_time
from headrace.studies.sheet import fingerprint
from headrace.topologies.config import Apex

__all__ = ["PUBLISHED_HIDDEN", "TRAINING", "Training", "TrainingCase", "training_case"]

PUBLISHED_HIDDEN = (2048, 2048, 2048)


@dataclass(frozen=True)
class Training:
    """How a task is trained here."""

    algorithm: OffPolicy
    topology: Apex
    steps: int
    """Environment steps of all actors."""
    evaluation_period_seconds: float
    """Training time between evaluations: short beside the time to the target."""
    evaluation_episodes: int
    target_share: float = 1.0
    """Of the published reward, what counts as reached; below 1 where ours does not come so far in these steps."""


_D4PG = D4PG(
    hidden=(256, 256),
    critic_hidden=(256, 256),
    n_step=5,
    learning_rate=3e-4,
    critic_learning_rate=1e-3,
    target_update_period=20,
    samples_per_step=16.0,
    sigmas=(0.2, 0.5),
    value_min=0.0,
    value_max=100.0,
    replay_capacity=300_000,
)
_WIDE_DQN = DQN(
    hidden=PUBLISHED_HIDDEN,
    batch_size=64,
    n_step=5,
    learning_rate=3e-4,
    target_update_period=50,
    samples_per_step=0.25,
    publish_period=4,
    importance_exponent=0.2,
)
_SUITE_ACTORS = Apex(actors=4, envs_per_actor=2, pull_period=30)
_WIDE_ACTORS = Apex(actors=4, envs_per_actor=1, pull_period=100)


def _suite(steps: int, **settings: Any) -> Training:
    return Training(dataclasses.replace(_D4PG, **settings), _SUITE_ACTORS, steps, 4.0, 3)


def _preset(task: str, steps: int) -> Training:
    known = preset(task)
    return Training(known.algorithm, dataclasses.replace(known.apex, actors=1), steps, 2.0, 10)


TRAINING: dict[str, Training] = {
    "cartpole-balance": _suite(60_000),
    "walker-stand": _suite(150_000),
    "hopper-stand": _suite(500_000),
    "reacher-hard": _suite(500_000),
    "cheetah-run": _suite(500_000),
    "finger-spin": _suite(300_000),
    "humanoid-stand": _suite(10_000_000),
    "humanoid-walk": _suite(10_000_000),
    "CartPole-v1": Training(_WIDE_DQN, _WIDE_ACTORS, 120_000, 4.0, 10),
    "MountainCar-v0": _preset("MountainCar-v0", 200_000),
    "Acrobot-v1": _preset("Acrobot-v1", 100_000),
}


@dataclass(frozen=True)
class TrainingCase:
    """One run: everything that decides it."""

    task: str
    environment: str
    algorithm: OffPolicy
    topology: Apex
    seed: int
    steps: int
    evaluation_period_seconds: float
    evaluation_episodes: int
    target: float
    device: str

    def __str__(self) -> str:
        return f"{self.task}, {self.topology.precision}, seed {self.seed}"

    @property
    def name(self) -> str:
        """The same for the same settings."""
        kind = next(name for name, kind in ALGORITHMS.items() if isinstance(self.algorithm, kind))
        record: dict[str, Any] = {"kind": kind, **dataclasses.asdict(self)}
        return fingerprint("training", record)


def training_case(task: str, precision: Precision, seed: int, device: str) -> TrainingCase:
    """The table's case of a task; `device` is the learner's, "cpu" or "cuda"."""
    entry = TRAINING[task]
    hidden = PUBLISHED_HIDDEN if device == "cuda" else entry.algorithm.hidden
    return TrainingCase(
        task=task,
        environment=TASKS[task].environment,
        algorithm=dataclasses.replace(entry.algorithm, hidden=hidden),
        topology=dataclasses.replace(entry.topology, precision=precision),
        seed=seed,
        steps=entry.steps,
        evaluation_period_seconds=entry.evaluation_period_seconds,
        evaluation_episodes=entry.evaluation_episodes,
        target=entry.target_share * published_time(TASKS[task]).reward,
        device=device,
    )
