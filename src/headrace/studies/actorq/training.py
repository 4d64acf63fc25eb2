"""Time to reward: the tasks, their published figures, and the runs that train them.

`tasks.csv` has the tasks and the length of their runs. Without a GPU, a run at the published size, 3 x 2048, would be
strongly learner-bound: the policies of the control suite are smaller here, and the runs are still learner-bound.
CartPole-v1 is trained at the published size with a low replay ratio: inference is most of its actors' time in fp32.
MountainCar-v0 and Acrobot-v1 use their presets, with one actor. With a GPU all tasks use the published size. The
measured bottleneck of each run is in its row and on the page.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.algorithms.config import OffPolicy
from headrace.algorithms.dqn.config import DQN
from headrace.environments.dm_control import ControlSuite
from headrace.networks.precision import Precision
from headrace.roles.clock import LEARNER_PHASES
from headrace.settings import preset
from headrace.studies.base import Case, Measured
from headrace.studies.curves import curve_of, held_at
from headrace.studies.sheet import Row, read_published
from headrace.studies.training import (
    ACTOR_PHASES,
    EVALUATION_COLUMNS,
    FINAL_COLUMNS,
    curve_rows,
    recorded,
    summarized,
    train_case,
)
from headrace.topologies.apex import Apex

__all__ = ["CURVE_COLUMNS", "PRECISIONS", "PUBLISHED_HIDDEN", "RUN_COLUMNS", "TASKS", "TrainingCase", "figures_of",
           "measure_training", "reference", "training_case"]  # fmt: skip

PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16", "int8")
PUBLISHED_HIDDEN = (2048, 2048, 2048)
_TIMES = {row["task"]: row for row in read_published("actorq", "published/time_to_reward.csv")}
TASKS: dict[str, Row] = {row["task"]: _TIMES[row["published"]] | row for row in read_published("actorq", "tasks.csv")}
"""The tasks, each with its published reward and times, in seconds, with actors in fp32 and in int8."""
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
_WIDE_ACTORS = Apex(actors=4, envs_per_actor=1, pull_period=100)
_SUITE_ACTORS = Apex(actors=4, envs_per_actor=2, pull_period=30)
_CASE = ("task", "precision", "pull_period", "seed")
RUN_COLUMNS = (
    *_CASE,
    *("algorithm", "hidden", "actors", "samples_per_step", "device"),
    *("target", "seconds_to_reward", "steps_to_reward", *FINAL_COLUMNS),
    *("environment_steps", "learner_steps", "wall_seconds", "steps_per_second", "staleness", "samples_per_insert"),
    *(f"actor_{phase}" for phase in ACTOR_PHASES),
    *(f"learner_{phase}" for phase in LEARNER_PHASES),
    "stopped_by",
)
CURVE_COLUMNS = (*_CASE, *EVALUATION_COLUMNS)
"""Columns of the rows of figures_of()."""


@dataclass(frozen=True)
class TrainingCase(Case):
    """All settings of one run."""

    prefix = "training"

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

    def settings(self) -> dict[str, Any]:
        """The fields, and the algorithm's name."""
        return {"kind": self.algorithm.name, **dataclasses.asdict(self)}


def training_case(task: str, precision: Precision, seed: int, device: str) -> TrainingCase:
    """The run of a task; `device` is the learner's, "cpu" or "cuda"."""
    row = TASKS[task]
    environment = row["environment"]
    algorithm: OffPolicy | None = _WIDE_DQN
    topology = _WIDE_ACTORS
    if task != "CartPole-v1":
        known = preset(environment)
        algorithm = known.algorithm.replay
        in_suite = environment.startswith(ControlSuite.prefix)
        topology = _SUITE_ACTORS if in_suite else replace(Apex.tuned(known.sizing), actors=1)
    assert algorithm is not None
    return TrainingCase(
        task=task,
        environment=environment,
        algorithm=replace(algorithm, hidden=PUBLISHED_HIDDEN if device == "cuda" else algorithm.hidden),
        topology=replace(topology, precision=precision),
        seed=seed,
        steps=row["steps"],
        evaluation_period_seconds=float(row["evaluation_seconds"]),
        evaluation_episodes=row["evaluation_episodes"],
        target=row["reward_achieved"],
        device=device,
    )


def reference(task: str) -> str:
    """Scores of other systems, such as "994 in 100,000 steps (Acme-style D4PG)"; empty if none is known."""
    found = []
    for row in read_published("actorq", "published/reference_scores.csv"):
        if row["environment"] == task:
            steps = f" in {row['environment_steps']:,} steps" if row["environment_steps"] else ""
            found.append(f"{row['score']}{steps} ({row['system']})")
    return "; ".join(found)


def measure_training(case: TrainingCase, folder: Path) -> Measured:
    """Trains a run; see train_case(). Evaluations use the learner's full-precision policy."""
    return figures_of(case, *train_case(case, folder, device=case.device))


def figures_of(case: TrainingCase, summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Measured:
    """The figures of a run, from its records."""
    settings = {
        "task": case.task,
        "precision": case.topology.precision,
        "pull_period": case.topology.pull_period,
        "seed": case.seed,
    }
    curve = curve_rows(settings, records)
    reached = held_at(curve_of(curve), case.target)
    run = {
        **summarized(summary, RUN_COLUMNS),
        **settings,
        "hidden": "x".join(map(str, case.algorithm.hidden)),
        "actors": case.topology.actors,
        "samples_per_step": case.algorithm.samples_per_step,
        "device": case.device,
        "target": case.target,
        "seconds_to_reward": None if reached is None else curve[reached]["seconds"],
        "steps_to_reward": None if reached is None else curve[reached]["environment_steps"],
        "steps_per_second": summary["environment_steps"] / summary["wall_seconds"],
    }
    for side, seconds in (("actor", recorded(summary["actor_times"])), ("learner", summary["learner_times"])):
        total = sum(seconds.values()) or 1.0
        run |= {f"{side}_{phase}": spent / total for phase, spent in seconds.items()}
    return Measured(run, curve)
