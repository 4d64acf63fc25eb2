"""The table of training cases: for each task the network, the replay ratio, the length, and the target.

Without a GPU, a run at the published size, 3 x 2048, would be strongly learner-bound: the policies of the control suite
are smaller here, and the runs are still learner-bound. CartPole-v1 is trained at the published size with a replay ratio
so low that runs are actor-bound. MountainCar-v0 and Acrobot-v1 use their presets, with one actor. With a GPU all tasks
use the published size. The measured bottleneck of each run is in its row and on the page.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.algorithms.config import OffPolicy
from headrace.algorithms.dqn.config import DQN
from headrace.networks.precision import Precision
from headrace.settings import Preset, preset
from headrace.studies.actorq.tasks import TASKS, published_time
from headrace.studies.sheet import fingerprint
from headrace.topologies.config import Apex

__all__ = ["PUBLICATIONS_PER_SECOND", "PUBLISHED_HIDDEN", "TRAINING", "TrainingCase", "training_case"]

PUBLISHED_HIDDEN = (2048, 2048, 2048)
PUBLICATIONS_PER_SECOND = 4.0
"""The published learner's rate: about one publication per 30 steps of the fp32 actor, which take 10 ms each."""


@dataclass(frozen=True)
class TrainingCase:
    """All settings of one run."""

    task: str
    environment: str
    algorithm: OffPolicy
    topology: Apex
    seed: int
    steps: int
    """Total environment steps of all actors."""
    evaluation_period_seconds: float
    """Training time between evaluations: short compared with the time to the target."""
    evaluation_episodes: int
    target: float
    device: str

    def __str__(self) -> str:
        return f"{self.task}, {self.topology.precision}, seed {self.seed}"

    @property
    def name(self) -> str:
        """A name that is equal for equal settings."""
        record: dict[str, Any] = {"kind": self.algorithm.name, **dataclasses.asdict(self)}
        return fingerprint("training", record)


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


def _replaying(known: Preset) -> OffPolicy:
    """The algorithm of a preset with replay."""
    replay = known.algorithm.replay
    assert replay is not None
    return replay


def _case(task: str, algorithm: OffPolicy, topology: Apex, steps: int, period: float, episodes: int) -> TrainingCase:
    """The case of seed 0."""
    environment, target = TASKS[task].environment, published_time(TASKS[task]).reward
    return TrainingCase(task, environment, algorithm, topology, 0, steps, period, episodes, target, "cpu")


def _suite(task: str, steps: int) -> TrainingCase:
    return _case(task, _replaying(preset(f"dm_control/{task}")), _SUITE_ACTORS, steps, 4.0, 3)


def _gym(task: str, steps: int) -> TrainingCase:
    known = preset(task)
    return _case(task, _replaying(known), dataclasses.replace(known.apex, actors=1), steps, 2.0, 10)


TRAINING = {
    case.task: case
    for case in (
        _suite("cartpole-balance", 60_000),
        _suite("walker-stand", 150_000),
        _suite("hopper-stand", 500_000),
        _suite("reacher-hard", 500_000),
        _suite("cheetah-run", 500_000),
        _suite("finger-spin", 150_000),
        _suite("humanoid-stand", 10_000_000),
        _suite("humanoid-walk", 10_000_000),
        _case("CartPole-v1", _WIDE_DQN, _WIDE_ACTORS, 200_000, 4.0, 10),
        _gym("MountainCar-v0", 200_000),
        _gym("Acrobot-v1", 100_000),
    )
}
"""The cases of seed 0 with actors in full precision, without a GPU."""


def training_case(task: str, precision: Precision, seed: int, device: str) -> TrainingCase:
    """The table's case for a task; `device` is the learner's, "cpu" or "cuda"."""
    case = TRAINING[task]
    hidden = PUBLISHED_HIDDEN if device == "cuda" else case.algorithm.hidden
    return dataclasses.replace(
        case,
        algorithm=dataclasses.replace(case.algorithm, hidden=hidden),
        topology=dataclasses.replace(case.topology, precision=precision),
        seed=seed,
        device=device,
    )
