"""Trains a run of the study and computes its figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.gradients.measured import STALENESS
from headrace.studies.base import Measured
from headrace.studies.downpour.cases import TrainingCase
from headrace.studies.training import EVALUATION_COLUMNS, FINAL_COLUMNS, curve_rows, summarized, train_case

__all__ = ["CURVE_COLUMNS", "RUN_COLUMNS", "figures_of", "measure_training"]

_CASE = ("label", "environment", "topology", "workers", "fetch_period", "policy", "seed")
_COUNTS = ("accepted", "dropped", "refused")
_GRADIENTS = ("staleness", *(f"staleness_{bucket}" for bucket in STALENESS), *_COUNTS)
RUN_COLUMNS = (
    *_CASE,
    *("envs_per_worker", "push_period", "staleness_limit", "batch_size", "samples_per_step", "samples_per_insert"),
    *("environment_steps", "updates", "wall_seconds", "steps_per_second", "updates_per_second"),
    *FINAL_COLUMNS,
    *_GRADIENTS,
    "stopped_by",
)
CURVE_COLUMNS = (*_CASE, *EVALUATION_COLUMNS)
"""Columns of the rows of figures_of()."""


def measure_training(case: TrainingCase, folder: Path) -> Measured:
    """Trains a run; see train_case()."""
    settings = {"evaluation_period_steps": case.evaluation_period_steps, "device": "cpu"}
    return figures_of(case, *train_case(case, folder, **settings))


def figures_of(case: TrainingCase, summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Measured:
    """The figures of a run, from its summary and metrics."""
    served = case.served or {}
    settings = {
        "label": case.label,
        "environment": case.environment,
        "topology": summary["topology"],
        "workers": case.workers,
        "fetch_period": served.get("fetch_period"),
        "policy": served.get("staleness"),
        "seed": case.seed,
    }
    run = {
        **summarized(summary, RUN_COLUMNS),
        **settings,
        "envs_per_worker": case.environments,
        "push_period": served.get("push_period"),
        "staleness_limit": served["staleness_limit"] if served and served["staleness"] == "drop" else None,
        "batch_size": case.algorithm.batch_size,
        "samples_per_step": case.algorithm.samples_per_step,
        "steps_per_second": summary["environment_steps"] / summary["wall_seconds"],
        "updates_per_second": _updates_per_second(records),
        **_gradients(summary),
    }
    return Measured(run, curve_rows(settings, records))


def _updates_per_second(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Rate from the first record with an update to the last, without the start of processes; None for a shorter run."""
    learning = [record for record in records if record["kind"] == "progress" and record["learner_steps"] > 0]
    if not learning or learning[-1]["seconds"] == learning[0]["seconds"]:
        return None
    first, last = learning[0], learning[-1]
    return float((last["learner_steps"] - first["learner_steps"]) / (last["seconds"] - first["seconds"]))


def _gradients(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of the workers' gradients by outcome; empty for a topology without workers."""
    workers = summary["workers"]
    if workers is None:
        return dict.fromkeys(_GRADIENTS)
    return {
        "staleness": summary["staleness"],
        **{f"staleness_{bucket}": workers["staleness"][bucket] for bucket in STALENESS},
        **{count: workers[count] for count in _COUNTS},
    }
