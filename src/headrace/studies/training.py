"""Training runs of a study: from a case to its summary, records and curve."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.algorithms.config import Algorithm
from headrace.roles import clock
from headrace.topologies.config import Topology

__all__ = [
    "ACTOR_PHASES", "EVALUATION_COLUMNS", "FINAL_COLUMNS", "FINAL_EPISODES", "curve_rows", "recorded", "summarized",
    "train_case",
]  # fmt: skip

ACTOR_PHASES = tuple(phase for phase in clock.ACTOR_PHASES if phase != "blocked")
"""The phases of an actor's time as studies record them."""
FINAL_EPISODES = 100
FINAL_COLUMNS = ("final_return", "final_std", "final_episodes")
"""Columns of the evaluation at the end of a run."""
_SUMMARY_NAMES = {
    "final_return": "mean_return", "final_std": "std_return", "final_episodes": "evaluation_episodes",
    "score": "mean_return", "score_std": "std_return", "score_episodes": "evaluation_episodes",
    "updates": "learner_steps", "seconds": "wall_seconds",
}  # fmt: skip
"""Columns that have another name in a run's summary."""
EVALUATION_COLUMNS = ("environment_steps", "seconds", "mean_return", "std_return", "episodes")
_NEVER_SECONDS = 1e9


class _Run(Protocol):
    """The settings of a case that train_case() trains."""

    @property
    def environment(self) -> str: ...
    @property
    def algorithm(self) -> Algorithm: ...
    @property
    def topology(self) -> Topology: ...
    @property
    def steps(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def evaluation_period_seconds(self) -> float: ...
    @property
    def evaluation_episodes(self) -> int: ...


def train_case(case: _Run, folder: Path, **settings: Any) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """The summary and the records of a run of headrace.train; `settings` are those not common to all cases.

    A serial run is evaluated by steps: for one, `evaluation_period_steps` is among the settings.

    The folder is replaced: an interrupted run starts over, because its clock must be continuous. Evaluations pause that
    clock or run on a separate core. Raises HeadraceError; KeyboardInterrupt if the run was interrupted.
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
        **settings,
    )
    if result.summary["stopped_by"] == "interrupt":
        raise KeyboardInterrupt
    shutil.rmtree(result.run.checkpoints_path, ignore_errors=True)  # as large as the replay
    return result.summary, list(result.run.read_metrics())


def summarized(summary: Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Those of a row's columns that the run's summary has, under the same name or that of _SUMMARY_NAMES."""
    names = {column: _SUMMARY_NAMES.get(column, column) for column in columns}
    return {column: summary[name] for column, name in names.items() if name in summary}


def curve_rows(settings: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each evaluation: a run's settings, then EVALUATION_COLUMNS."""
    return [
        {**settings, **{column: record[column] for column in EVALUATION_COLUMNS}}
        for record in records
        if record["kind"] == "evaluation"
    ]


def recorded(seconds: Mapping[str, float]) -> dict[str, float]:
    """The seconds of an actor's clock by ACTOR_PHASES; push includes the time for which the server blocks the actor."""
    return {phase: seconds[phase] for phase in ACTOR_PHASES} | {"push": seconds["push"] + seconds["blocked"]}
