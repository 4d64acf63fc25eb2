"""Runs through `headrace.train`, and what came of them."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.gradients.measured import STALENESS
from headrace.studies.downpour.cases import TrainingCase
from headrace.topologies.config import ParameterServer

__all__ = ["CURVE_COLUMNS", "FINAL_EPISODES", "RUN_COLUMNS", "Trained", "figures_of", "train_case"]

FINAL_EPISODES = 100
_NEVER_SECONDS = 1e9
_CASE = ("label", "environment", "topology", "workers", "fetch_period", "policy", "seed")
RUN_COLUMNS = (
    *_CASE,
    *("envs_per_worker", "push_period", "staleness_limit", "batch_size", "samples_per_step", "samples_per_insert"),
    *("environment_steps", "updates", "wall_seconds", "steps_per_second", "updates_per_second"),
    *("final_return", "final_std", "final_episodes"),
    *("staleness", *(f"staleness_{bucket}" for bucket in STALENESS), "accepted", "dropped", "refused"),
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

    Evaluations are off the training clock. Raises HeadraceError; KeyboardInterrupt where the run was interrupted.
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
        evaluation_period_steps=case.evaluation_period_steps,
        evaluation_episodes=case.evaluation_episodes,
        final_evaluation_episodes=FINAL_EPISODES,
        checkpoint_period_seconds=_NEVER_SECONDS,
        device="cpu",
    )
    if result.summary["stopped_by"] == "interrupt":
        raise KeyboardInterrupt
    shutil.rmtree(result.run.checkpoints_path, ignore_errors=True)
    return figures_of(case, result.summary, list(result.run.read_metrics()))


def figures_of(case: TrainingCase, summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Trained:
    """What a run's summary and metrics say."""
    served = case.topology if isinstance(case.topology, ParameterServer) else None
    settings = {
        "label": case.label,
        "environment": case.environment,
        "topology": summary["topology"],
        "workers": case.workers,
        "fetch_period": served.fetch_period if served else None,
        "policy": served.staleness if served else None,
        "seed": case.seed,
    }
    curve = [
        {**settings, **{field: record[field] for field in CURVE_COLUMNS[len(_CASE) :]}}
        for record in records
        if record["kind"] == "evaluation"
    ]
    seconds = summary["wall_seconds"]
    run = {
        **settings,
        "envs_per_worker": case.environments,
        "push_period": served.push_period if served else None,
        "staleness_limit": served.staleness_limit if served and served.staleness == "drop" else None,
        "batch_size": case.algorithm.batch_size,
        "samples_per_step": case.algorithm.samples_per_step,
        "samples_per_insert": summary["samples_per_insert"],
        "environment_steps": summary["environment_steps"],
        "updates": summary["learner_steps"],
        "wall_seconds": seconds,
        "steps_per_second": summary["environment_steps"] / seconds,
        "updates_per_second": _updates_per_second(records),
        "final_return": summary["mean_return"],
        "final_std": summary["std_return"],
        "final_episodes": summary["evaluation_episodes"],
        **_gradients(summary),
        "stopped_by": summary["stopped_by"],
    }
    return Trained(run, curve)


def _updates_per_second(records: Sequence[Mapping[str, Any]]) -> float | None:
    """From the first record with an update to the last: without the start of processes. None of a shorter run."""
    learning = [record for record in records if record["kind"] == "progress" and record["learner_steps"] > 0]
    if not learning or learning[-1]["seconds"] == learning[0]["seconds"]:
        return None
    first, last = learning[0], learning[-1]
    return float((last["learner_steps"] - first["learner_steps"]) / (last["seconds"] - first["seconds"]))


def _gradients(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What became of the workers' gradients; nothing of a topology that has no workers."""
    workers = summary["workers"]
    counts = ("accepted", "dropped", "refused")
    if workers is None:
        return dict.fromkeys(("staleness", *(f"staleness_{bucket}" for bucket in STALENESS), *counts))
    return {
        "staleness": summary["staleness"],
        **{f"staleness_{bucket}": workers["staleness"][bucket] for bucket in STALENESS},
        **{count: workers[count] for count in counts},
    }
