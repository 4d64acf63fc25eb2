"""Time to reward: one run through `headrace.train`, and what came of it."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.roles.actor import ACTOR_PHASES
from headrace.roles.learner import LEARNER_PHASES
from headrace.studies.actorq.cases import TrainingCase
from headrace.studies.curves import curve_of, held_at

__all__ = ["CURVE_COLUMNS", "FINAL_EPISODES", "RUN_COLUMNS", "Trained", "figures_of", "train_case"]

FINAL_EPISODES = 100
_NEVER_SECONDS = 1e9
_CASE = ("task", "precision", "pull_period", "seed")
RUN_COLUMNS = (
    *_CASE,
    *("algorithm", "hidden", "actors", "samples_per_step", "device"),
    *("target", "seconds_to_reward", "steps_to_reward", "final_return", "final_std", "final_episodes"),
    *("environment_steps", "learner_steps", "wall_seconds", "steps_per_second", "staleness", "samples_per_insert"),
    *(f"actor_{phase}" for phase in ACTOR_PHASES),
    *(f"learner_{phase}" for phase in LEARNER_PHASES),
    "stopped_by",
)
CURVE_COLUMNS = (*_CASE, "environment_steps", "seconds", "mean_return", "std_return", "episodes")
"""What the rows of figures_of() have."""


class Trained(NamedTuple):
    """A run's row, and a row for each of its evaluations."""

    run: dict[str, Any]
    curve: list[dict[str, Any]]


def train_case(case: TrainingCase, folder: Path) -> Trained:
    """Trains into a folder, which is made anew: a run that was interrupted begins again, for its clock to be one.

    The learner's full-precision policy is evaluated while the training clock stands still, or on a core of its own.
    Raises HeadraceError; KeyboardInterrupt where the run was interrupted.
    """
    from headrace.api import train

    shutil.rmtree(folder, ignore_errors=True)
    result = train(
        case.environment,
        algorithm=case.algorithm,
        topology=case.topology,
        steps=case.steps,
        seed=case.seed,
        run_dir=folder,
        quiet=True,
        evaluation_period_seconds=case.evaluation_period_seconds,
        evaluation_episodes=case.evaluation_episodes,
        final_evaluation_episodes=FINAL_EPISODES,
        checkpoint_period_seconds=_NEVER_SECONDS,
        device=case.device,
    )
    if result.summary["stopped_by"] == "interrupt":
        raise KeyboardInterrupt
    shutil.rmtree(result.run.checkpoints_path, ignore_errors=True)  # as large as the replay
    evaluations = [record for record in result.run.read_metrics() if record["kind"] == "evaluation"]
    return figures_of(case, result.summary, evaluations)


def figures_of(case: TrainingCase, summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]) -> Trained:
    """What a run's records say."""
    settings = {
        "task": case.task,
        "precision": case.topology.precision,
        "pull_period": case.topology.pull_period,
        "seed": case.seed,
    }
    curve = [
        {
            **settings,
            "environment_steps": record["environment_steps"],
            "seconds": record["seconds"],
            "mean_return": record["mean_return"],
            "std_return": record["std_return"],
            "episodes": record["episodes"],
        }
        for record in evaluations
    ]
    reached = held_at(curve_of(curve), case.target)
    run = {
        **settings,
        "algorithm": summary["algorithm"],
        "hidden": "x".join(map(str, case.algorithm.hidden)),
        "actors": case.topology.actors,
        "samples_per_step": case.algorithm.samples_per_step,
        "device": case.device,
        "target": case.target,
        "seconds_to_reward": None if reached is None else curve[reached]["seconds"],
        "steps_to_reward": None if reached is None else curve[reached]["environment_steps"],
        "final_return": summary["mean_return"],
        "final_std": summary["std_return"],
        "final_episodes": summary["evaluation_episodes"],
        "environment_steps": summary["environment_steps"],
        "learner_steps": summary["learner_steps"],
        "wall_seconds": summary["wall_seconds"],
        "steps_per_second": summary["environment_steps"] / summary["wall_seconds"],
        "staleness": summary["staleness"],
        "samples_per_insert": summary["samples_per_insert"],
        **_shares("actor", ACTOR_PHASES, summary["actor_times"]),
        **_shares("learner", LEARNER_PHASES, summary["learner_times"]),
        "stopped_by": summary["stopped_by"],
    }
    return Trained(run, curve)


def _shares(side: str, phases: Sequence[str], seconds: Mapping[str, float]) -> dict[str, float]:
    """The part of a side's time that each phase took."""
    total = sum(seconds.values()) or 1.0
    return {f"{side}_{phase}": seconds[phase] / total for phase in phases}
