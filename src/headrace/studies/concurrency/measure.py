"""Trains one run in a separate process and computes its row."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, LaunchError, StorageError
from headrace.gradients.measured import STALENESS
from headrace.report.run_directory import RunDirectory
from headrace.studies.concurrency.cases import KILL_AT, Case
from headrace.studies.processes import Process
from headrace.studies.results import make_folder, write_text

__all__ = ["COLUMNS", "LATER_COLUMNS", "measure", "remake", "row_of"]

COLUMNS = (
    *("variant", "algorithm", "topology", "workers", "environments", "seed"),
    *("solved", "seconds_to_score", "steps_to_score", "score", "score_std", "score_episodes"),
    *("episodes", "environment_steps", "updates", "seconds", "total_seconds", "seconds_per_episode"),
    *("steps_per_second", "updates_per_second", "samples_per_step", "samples_per_step_set"),
    *("lock_wait_share", "staleness", *(f"staleness_{bucket}" for bucket in STALENESS)),
    *("accepted", "dropped", "refused", "killed", "deaths", "updates_after_death", "stopped_by"),
    *("start_seconds", "updates_after_death_share", "alive_at_end"),
)
LATER_COLUMNS = COLUMNS[-3:]
"""Columns that were added later; older rows may lack them."""
_WARM_SECONDS = 3.0
_START_SECONDS = 300.0
_AFTER = ("updates_after_death", "updates_after_death_share")
_LONGEST_SECONDS = 4 * 3600.0
"""Time limit of a run including its evaluations, which are off its clock."""

Record = Mapping[str, Any]


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Trains into a folder, which is replaced: an interrupted run starts over, because its clock must be continuous.

    Raises LaunchError if the run fails or was interrupted, or if not all workers that were to be killed were killed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    config, run_folder = folder / "case.json", folder / "run"
    write_text(config, case.config.to_json())
    step = int(KILL_AT * (case.config.steps or 0))
    arguments = [str(config), str(run_folder), str(case.killed), str(step)]
    command = [sys.executable, "-m", "headrace.studies.concurrency.child", *arguments]
    limit = _LONGEST_SECONDS if case.config.time_limit_seconds is None else _longest(case.config.time_limit_seconds)
    with Process(str(case), command, folder / "run.log") as process:
        killed = json.loads(process.listen(limit))
    if len(killed) < case.killed:
        raise LaunchError(f"{case.killed} workers were to be killed, and {len(killed)} were")
    run = RunDirectory.open(run_folder)
    summary = run.read_summary()
    if summary is None:
        raise StorageError(f"{run.summary_path} is missing: the run has not stopped properly")
    if summary["stopped_by"] == "interrupt":
        raise LaunchError("the run was interrupted; its clock would not be one")
    row = row_of(case, summary, run.read_metrics(), len(killed))
    shutil.rmtree(run.checkpoints_path, ignore_errors=True)  # as large as the replay
    return row


def remake(case: Case, row: Record, folder: Path) -> dict[str, Any] | None:
    """A measured row's figures, recomputed from its run's records; None if its folder no longer exists."""
    try:
        run = RunDirectory.open(folder / "run")
        summary = run.read_summary()
    except HeadraceError:
        return None
    return None if summary is None else row_of(case, summary, run.read_metrics(), row["killed"])


def row_of(case: Case, summary: Record, records: Sequence[Record], killed: int = 0) -> dict[str, Any]:
    """The figures of a run, from its summary and records."""
    episodes, seconds = summary["episodes"], summary["wall_seconds"]
    progress = [record for record in records if record["kind"] == "progress"]
    deaths = [record["seconds"] for record in records if record["kind"] == "exit" and "worker" in record["role"]]
    return {
        "variant": case.variant,
        "algorithm": summary["algorithm"],
        "topology": summary["topology"],
        "workers": case.workers,
        "environments": case.environments,
        "seed": summary["seed"],
        "solved": {None: None, True: "yes", False: "no"}[summary["solved"]],
        "seconds_to_score": summary["seconds_to_score"],
        "steps_to_score": summary["steps_to_score"],
        "score": summary["mean_return"],
        "score_std": summary["std_return"],
        "score_episodes": summary["evaluation_episodes"],
        "episodes": episodes,
        "environment_steps": summary["environment_steps"],
        "updates": summary["learner_steps"],
        "seconds": seconds,
        "total_seconds": summary["total_seconds"],
        "seconds_per_episode": seconds / episodes if episodes else None,
        "steps_per_second": _rate(progress, "environment_steps"),
        "updates_per_second": _rate(progress, "learner_steps"),
        "samples_per_step": _samples(case, summary),
        "samples_per_step_set": case.samples_per_step,
        **_sharing(summary),
        "killed": killed,
        "deaths": len(deaths),
        **(_after(case, summary, progress, deaths[0]) if deaths else dict.fromkeys(_AFTER)),
        "stopped_by": summary["stopped_by"],
        "start_seconds": _start(progress),
        "alive_at_end": progress[-1]["actors_alive"] if progress else None,
    }


def _samples(case: Case, summary: Record) -> float | None:
    """Transitions sampled per environment step, including those of dropped or refused gradients.

    If batches are partly simulated, per transition in the real table.
    """
    replay, steps = case.config.algorithm.replay, summary["environment_steps"]
    if replay is None or not steps:
        return None
    if case.plans:
        return float(summary["samples_per_insert"])
    workers = summary["workers"] or {"dropped": 0, "refused": 0}
    batches = summary["learner_steps"] + workers["dropped"] + workers["refused"]
    return float(batches * replay.batch_size / steps)


def _sharing(summary: Record) -> dict[str, Any]:
    """The workers' figures on their shared parameters; empty for a topology without workers."""
    workers = summary["workers"]
    names = ("lock_wait_share", "staleness", *(f"staleness_{bucket}" for bucket in STALENESS))
    if workers is None:
        return dict.fromkeys((*names, "accepted", "dropped", "refused"))
    spent = sum(summary["actor_times"].values()) + sum(summary["learner_times"].values())
    counts = workers["staleness"]
    total = sum(counts.values())
    shares = {f"staleness_{bucket}": counts[bucket] / total if total else None for bucket in STALENESS}
    return {
        "lock_wait_share": workers["lock_wait_seconds"] / spent if spent else None,
        "staleness": summary["staleness"],
        **shares,
        **{name: workers[name] for name in ("accepted", "dropped", "refused")},
    }


def _start(progress: Sequence[Record]) -> float | None:
    """Time of the first record with all processes alive and with updates; None if there is none."""
    begun = (
        record["seconds"]
        for record in progress
        if record["learner_steps"] and record["actors_alive"] >= record["actors_total"]
    )
    return next(begun, None)


def _rate(progress: Sequence[Record], field: str) -> float | None:
    """Rate of a count per second of training, from shortly after the start; None if the run ended before."""
    start = _start(progress)
    window = [record for record in progress if start is not None and record["seconds"] >= start + _WARM_SECONDS]
    if len(window) < 2:
        return None
    first, last = window[0], window[-1]
    return float((last[field] - first[field]) / (last["seconds"] - first["seconds"]))


def _after(case: Case, summary: Record, progress: Sequence[Record], seconds: float) -> dict[str, float | None]:
    """Updates since the first record after a death, and their ratio to the updates due for the remaining steps."""
    updates = steps = None
    for record in progress:
        if record["seconds"] >= seconds:
            updates, steps = record["learner_steps"], record["environment_steps"]
            break
    if updates is None or steps is None:  # it ended before the next record
        return {"updates_after_death": 0, "updates_after_death_share": None}
    replay, ratio = case.config.algorithm.replay, case.samples_per_step
    count = summary["learner_steps"] - updates
    share = None
    if replay is not None and ratio and case.config.steps and case.config.steps > steps:
        share = count * replay.batch_size / (ratio * (case.config.steps - steps))
    return {"updates_after_death": count, "updates_after_death_share": share}


def _longest(training_seconds: float) -> float:
    """Time limit of a run with this much training: evaluations take as long as training, or longer."""
    return _START_SECONDS + 8 * training_seconds
