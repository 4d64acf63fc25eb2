"""Runs of the study: their settings and their figures."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.algorithms.dqn.config import DQN
from headrace.fields import write_fields
from headrace.gradients.measured import STALENESS
from headrace.report.formats import counted
from headrace.studies.base import Case, Measured
from headrace.studies.training import EVALUATION_COLUMNS, FINAL_COLUMNS, curve_rows, summarized, train_case
from headrace.topologies.serial import Serial
from headrace.topologies.workers import ParameterServer

__all__ = [
    "CURVE_COLUMNS", "LOCAL_UPDATES", "ONG", "RUN_COLUMNS", "STALENESS_LIMIT", "TrainingCase", "figures_of",
    "measure_training",
]  # fmt: skip

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
STALENESS_LIMIT = 8
"""Low enough for the policy "drop" to drop gradients at the longer fetch periods."""
LOCAL_UPDATES = "local updates"
"""The name of Downpour as published (Dean et al. 2012, algorithm 7.1) among the policies."""
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


@dataclass(frozen=True)
class TrainingCase(Case):
    """One run of headrace.train."""

    prefix = "training"

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
        """The settings' origin, the topology and its main settings."""
        served, system = self.served, "serial"
        if served:
            workers, period = counted(self.workers, "worker"), served["fetch_period"]
            system = f"parameter-server, {workers}, fetch period {period}, {self.policy}"
        return f"{self.label} settings, {system}, seed {self.seed}"

    def settings(self) -> dict[str, Any]:
        """The fields, and the topology's name."""
        return {"topology_name": self.topology.name, **dataclasses.asdict(self)}

    @property
    def workers(self) -> int:
        """Processes that act and learn."""
        return self.topology.acting_processes

    @property
    def served(self) -> dict[str, Any]:
        """Settings of the parameter server; empty if there is none."""
        return write_fields(self.topology) if self.topology.has_workers else {}

    @property
    def policy(self) -> str | None:
        """What is done about staleness: the server's policy, or the worker's own updates between two fetches."""
        return LOCAL_UPDATES if self.served.get("local_updates") else self.served.get("staleness")


def measure_training(case: TrainingCase, folder: Path) -> Measured:
    """Trains a run; see train_case()."""
    settings = {"evaluation_period_steps": case.evaluation_period_steps, "device": "cpu"}
    return figures_of(case, *train_case(case, folder, **settings))


def figures_of(case: TrainingCase, summary: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Measured:
    """The figures of a run, from its summary and metrics."""
    served, workers = case.served, summary["workers"]
    settings = {
        "label": case.label,
        "environment": case.environment,
        "topology": summary["topology"],
        "workers": case.workers,
        "fetch_period": served.get("fetch_period"),
        "policy": case.policy,
        "seed": case.seed,
    }
    run = {
        **summarized(summary, RUN_COLUMNS),
        **settings,
        "envs_per_worker": case.topology.environments_each,
        "push_period": served.get("push_period"),
        "staleness_limit": served["staleness_limit"] if served.get("staleness") == "drop" else None,
        "batch_size": case.algorithm.batch_size,
        "samples_per_step": case.algorithm.samples_per_step,
        "steps_per_second": summary["environment_steps"] / summary["wall_seconds"],
        "updates_per_second": _updates_per_second(records),
        **dict.fromkeys(_GRADIENTS),
    }
    if workers is not None:
        run |= {"staleness": summary["staleness"], **{count: workers[count] for count in _COUNTS}}
        run |= {f"staleness_{bucket}": workers["staleness"][bucket] for bucket in STALENESS}
    return Measured(run, curve_rows(settings, records))


def _updates_per_second(records: Sequence[Mapping[str, Any]]) -> float | None:
    """Rate from the first record with an update to the last, without the start of processes; None for a shorter run."""
    learning = [record for record in records if record["kind"] == "progress" and record["learner_steps"] > 0]
    if not learning or learning[-1]["seconds"] == learning[0]["seconds"]:
        return None
    first, last = learning[0], learning[-1]
    return float((last["learner_steps"] - first["learner_steps"]) / (last["seconds"] - first["seconds"]))
