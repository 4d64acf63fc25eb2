"""Trains one run in a separate process and computes its row.

As a program it is that process: it trains, can kill some of its workers, and answers with the killed workers' numbers.
"""

import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, LaunchError, StorageError
from headrace.gradients.measured import STALENESS
from headrace.report.display import Heading, open_display
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.studies.concurrency.cases import KILL_AT, Case
from headrace.studies.processes import Process, answer, received
from headrace.studies.results import make_folder
from headrace.studies.training import summarized

__all__ = ["COLUMNS", "LATER_COLUMNS", "kill_workers", "measure", "remake", "row_of", "worker_processes"]

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
_SHARING = ("lock_wait_share", "staleness", *(f"staleness_{bucket}" for bucket in STALENESS))
_OUTCOMES = ("accepted", "dropped", "refused")
_WARM_SECONDS = 3.0
_POLL_SECONDS = 0.1
_START_SECONDS = 300.0
_AFTER = ("updates_after_death", "updates_after_death_share")
_LONGEST_SECONDS = 4 * 3600.0
"""Time limit of a run including its evaluations, which are off its clock."""
_EVALUATED = 8
"""Time limit of a run of limited training, relative to it: evaluations take as long as training, or longer."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class _Settings:
    config: RunConfig
    folder: str
    killed: int
    """Number of workers to kill."""
    step: int
    """Environment step at which they are killed."""


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Trains into a folder, which is replaced: an interrupted run starts over, because its clock must be continuous.

    Raises LaunchError if the run fails or was interrupted, or if not all workers that were to be killed were killed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    step = int(KILL_AT * (case.config.steps or 0))
    settings = _Settings(case.config, str(folder / "run"), case.killed, step)
    training = case.config.time_limit_seconds
    limit = _LONGEST_SECONDS if training is None else _START_SECONDS + _EVALUATED * training
    with Process.of_module(__name__, folder, settings, name=str(case)) as process:
        killed = process.record(limit)
    if len(killed) < case.killed:
        raise LaunchError(f"{case.killed} workers were to be killed, and {len(killed)} were")
    run = RunDirectory.open(folder / "run")
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
        **summarized(summary, COLUMNS),
        "variant": case.variant,
        "workers": case.workers,
        "environments": case.environments,
        "solved": {None: None, True: "yes", False: "no"}[summary["solved"]],
        "seconds_per_episode": seconds / episodes if episodes else None,
        "steps_per_second": _rate(progress, "environment_steps"),
        "updates_per_second": _rate(progress, "learner_steps"),
        "samples_per_step": _samples(case, summary),
        "samples_per_step_set": case.samples_per_step,
        **_sharing(summary),
        "killed": killed,
        "deaths": len(deaths),
        **(_after(case, summary, progress, deaths[0]) if deaths else dict.fromkeys(_AFTER)),
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
    if workers is None:
        return dict.fromkeys((*_SHARING, *_OUTCOMES))
    spent = sum(summary["actor_times"].values()) + sum(summary["learner_times"].values())
    counts = workers["staleness"]
    total = sum(counts.values())
    shares = {f"staleness_{bucket}": counts[bucket] / total if total else None for bucket in STALENESS}
    return {
        "lock_wait_share": workers["lock_wait_seconds"] / spent if spent else None,
        "staleness": summary["staleness"],
        **shares,
        **{name: workers[name] for name in _OUTCOMES},
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


def worker_processes(parent: int) -> dict[int, int]:
    """Process ids of a run's workers by their numbers; `parent` is the run's process id."""
    found = {}
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        for process in map(int, children.read_text().split()):
            with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                if b"headrace.launch.child" in words and b"worker" in words:
                    found[int(words[words.index(b"worker") + 1])] = process
    return found


def kill_workers(run: RunDirectory, count: int, step: int, killed: list[int]) -> None:
    """Waits until a run has made this many environment steps, then kills its last workers with SIGKILL.

    Adds their numbers to `killed`. Runs in a thread of the run's process.
    """
    while not any(
        record["kind"] == "progress" and record["environment_steps"] >= step for record in run.read_metrics()
    ):
        time.sleep(_POLL_SECONDS)
    workers = worker_processes(os.getpid())
    for number in sorted(workers)[-count:]:
        os.kill(workers[number], signal.SIGKILL)
        killed.append(number)


def _train() -> None:
    from headrace.training import train

    settings = received(_Settings)
    killed: list[int] = []
    config = settings.config
    heading = Heading(config.environment, config.algorithm.name, config.topology.name, settings.folder)
    with (
        RunDirectory.create(Path(settings.folder), config.to_json()) as run,
        open_display(heading, quiet=True) as shown,
    ):
        if settings.killed:
            arguments = (run, settings.killed, settings.step, killed)
            threading.Thread(target=kill_workers, args=arguments, daemon=True).start()
        train(config, run, shown)
    answer(killed)


if __name__ == "__main__":
    try:
        _train()
    except HeadraceError as error:
        sys.exit(str(error))
