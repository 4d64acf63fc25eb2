"""Time to reward: trains a run of the study and computes its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.roles.learner import LEARNER_PHASES
from headrace.studies.actorq.cases import TrainingCase
from headrace.studies.base import Measured
from headrace.studies.curves import curve_of, held_at
from headrace.studies.phases import ACTOR_PHASES, recorded
from headrace.studies.training import EVALUATION_COLUMNS, FINAL_COLUMNS, curve_rows, summarized, train_case

__all__ = ["CURVE_COLUMNS", "RUN_COLUMNS", "figures_of", "measure_training"]

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
        **_shares("actor", ACTOR_PHASES, recorded(summary["actor_times"])),
        **_shares("learner", LEARNER_PHASES, summary["learner_times"]),
    }
    return Measured(run, curve)


def _shares(side: str, phases: Sequence[str], seconds: Mapping[str, float]) -> dict[str, float]:
    """The share of each phase in a side's time."""
    total = sum(seconds.values()) or 1.0
    return {f"{side}_{phase}": seconds[phase] / total for phase in phases}
