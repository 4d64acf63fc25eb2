"""A run of the study: trains it in a separate process and computes its row.

As a program it is that process: it trains, can kill some of its workers, and answers with the killed workers' numbers
and whether training diverged.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.errors import DivergenceError, HeadraceError, LaunchError, StorageError
from headrace.gradients.measured import STALENESS
from headrace.launch.simulated import Simulated
from headrace.launch.simulated.costs import WORK, Costs
from headrace.report.display import Heading, open_display
from headrace.report.output import write_output
from headrace.report.rates import begun_seconds, steady_rate
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.studies import base
from headrace.studies.processes import Process, answer, received
from headrace.studies.results import make_folder
from headrace.studies.sheet import fingerprint
from headrace.studies.training import summarized

__all__ = ["COLUMNS", "Case", "kill_workers", "measure", "row_of", "worker_processes"]

COLUMNS = (
    *("variant", "algorithm", "topology", "workers", "environments", "seed"),
    *("solved", "seconds_to_score", "steps_to_score", "score", "score_std", "score_episodes"),
    *("episodes", "environment_steps", "updates", "seconds", "total_seconds", "seconds_per_episode"),
    *("steps_per_second", "updates_per_second", "samples_per_step", "samples_per_step_set"),
    *("lock_wait_share", "staleness", *(f"staleness_{bucket}" for bucket in STALENESS)),
    *("accepted", "dropped", "refused", "killed", "deaths", "updates_after_death", "stopped_by"),
    *("start_seconds", "updates_after_death_share", "alive_at_end"),
)
_OUTCOMES = ("accepted", "dropped", "refused")
_SHARING = ("lock_wait_share", "staleness", *(f"staleness_{bucket}" for bucket in STALENESS), *_OUTCOMES)
_AFTER = ("updates_after_death", "updates_after_death_share")
_KILL_AT = 1 / 3
"""Share of environment steps after which workers are killed."""
_WARM_SECONDS = 3.0
_POLL_SECONDS = 0.1
_START_SECONDS = 300.0
_LONGEST_SECONDS = 4 * 3600.0
"""Time limit of a run including its evaluations, which are off its clock."""
_EVALUATED = 8
"""Time limit of a run of limited training, relative to it: evaluations take as long as training, or longer."""

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Case(base.Case):
    """A run and its disturbance."""

    part: str
    variant: str
    """The algorithm's name, with the change if there is one."""
    config: RunConfig
    killed: int = 0
    """Number of workers that are killed after a third of the run."""
    instant: bool = False
    """Whether a simulated update takes its time before it reads the parameters, and none before it changes them."""

    def __str__(self) -> str:
        count = f" × {self.workers}" if self.topology != "serial" else ""
        end = f", {self.killed} killed" if self.killed else ""
        return f"{self.variant}, {self.topology}{count}, seed {self.config.seed}{end}"

    @property
    def name(self) -> str:
        """A name that is equal for equal settings."""
        settings = [self.variant, self.killed, json.loads(self.config.to_json())]
        return fingerprint(self.part, [*settings, self.costs] if self.costs else settings)

    @property
    def costs(self) -> dict[str, Any]:
        """What the work of a simulated run costs: the defaults, with processes that start at once."""
        if not isinstance(self.config.launcher, Simulated):
            return {}
        costs = Costs().to_record() | {"start": 0.0}
        if self.instant:
            seconds = sum(WORK[work].seconds for work in ("transfer", "gradient", "apply"))
            before = {"seconds": seconds, "spread": WORK["gradient"].spread}
            costs |= {"gradient": 0.0, "apply": 0.0, "transfer": before}
        return costs

    @property
    def topology(self) -> str:
        """The topology's name on the command line."""
        return self.config.topology.name

    @property
    def workers(self) -> int:
        """Processes that act, learn or plan; where actors are separate, these and the planners, without the learner."""
        topology, algorithm = self.config.topology, self.config.algorithm
        planners = algorithm.world_model.planners if topology.takes_server and algorithm.world_model else 0
        return topology.acting_processes + planners

    @property
    def environments(self) -> int:
        """Total environments of all processes that act."""
        return self.config.topology.acting_processes * self.config.topology.environments_each

    @property
    def samples_per_step(self) -> float | None:
        """The configured replay ratio, including simulated samples; None for an algorithm without replay."""
        replay = self.config.algorithm.replay
        return replay.samples_per_step if replay is not None else None


@dataclass(frozen=True)
class _Settings:
    case: Case
    folder: str


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Trains into a folder, which is replaced: an interrupted run starts over, because its clock must be continuous.

    A run to a target that diverges has a row, and has not reached it. Raises LaunchError if the run fails, was
    interrupted, or diverges without a target, or if not all workers that were to be killed were killed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    settings = _Settings(case, str(folder / "run"))
    config = case.config
    training = config.time_limit_seconds
    if training is not None and isinstance(config.launcher, Simulated):
        training *= config.topology.acting_processes  # one core does the work of all
    limit = _LONGEST_SECONDS if training is None else _START_SECONDS + _EVALUATED * training
    with Process.of_module(__name__, folder, settings, name=str(case)) as process:
        killed, diverged = process.record(limit)
    run = RunDirectory.open(folder / "run")
    if diverged and config.until_score is None:
        raise LaunchError("training diverged")
    if diverged:
        return _diverged_row(case, run.read_metrics(), len(killed))
    if len(killed) < case.killed:
        raise LaunchError(f"{case.killed} workers were to be killed, and {len(killed)} were")
    summary = run.read_summary()
    if summary is None:
        raise StorageError(f"{run.summary_path} is missing: the run has not stopped properly")
    if summary["stopped_by"] == "interrupt":
        raise LaunchError("the run was interrupted; its clock would not be one")
    row = row_of(case, summary, run.read_metrics(), len(killed))
    shutil.rmtree(run.checkpoints_path, ignore_errors=True)  # as large as the replay
    return row


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
        "steps_per_second": steady_rate(progress, "environment_steps", _WARM_SECONDS),
        "updates_per_second": steady_rate(progress, "learner_steps", _WARM_SECONDS),
        "samples_per_step": _samples(case, summary),
        "samples_per_step_set": case.samples_per_step,
        **_sharing(summary),
        "killed": killed,
        "deaths": len(deaths),
        **(_after(case, summary, progress, deaths[0]) if deaths else dict.fromkeys(_AFTER)),
        "start_seconds": begun_seconds(progress),
        "alive_at_end": progress[-1]["actors_alive"] if progress else None,
    }


def _diverged_row(case: Case, records: Sequence[Record], killed: int) -> dict[str, Any]:
    """What is known of a run without a summary: its settings, and how far it came."""
    last = next((record for record in reversed(records) if record["kind"] == "progress"), {})
    return {
        **dict.fromkeys(COLUMNS),
        "variant": case.variant,
        "algorithm": case.config.algorithm.name,
        "topology": case.topology,
        "workers": case.workers,
        "environments": case.environments,
        "seed": case.config.seed,
        "solved": "no",
        "environment_steps": last.get("environment_steps"),
        "updates": last.get("learner_steps"),
        "seconds": last.get("seconds"),
        "samples_per_step_set": case.samples_per_step,
        "killed": killed,
        "stopped_by": "diverged",
    }


def _samples(case: Case, summary: Record) -> float | None:
    """Transitions sampled per environment step, including those of dropped or refused gradients.

    If batches are partly simulated, per transition in the real table.
    """
    replay, steps = case.config.algorithm.replay, summary["environment_steps"]
    if replay is None or not steps:
        return None
    if case.config.algorithm.world_model is not None:
        ratio: float | None = summary["samples_per_insert"]
        return ratio
    workers = summary["workers"] or {"dropped": 0, "refused": 0}
    batches = summary["learner_steps"] + workers["dropped"] + workers["refused"]
    return float(batches * replay.batch_size / steps)


def _sharing(summary: Record) -> dict[str, Any]:
    """The workers' figures on their shared parameters; empty for a topology without workers."""
    workers = summary["workers"]
    if workers is None:
        return dict.fromkeys(_SHARING)
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


def _after(case: Case, summary: Record, progress: Sequence[Record], seconds: float) -> dict[str, float | None]:
    """Updates since the first record after a death, and their ratio to the updates due for the remaining steps."""
    record = next((record for record in progress if record["seconds"] >= seconds), None)
    if record is None:  # it ended before the next record
        return dict(zip(_AFTER, (0, None), strict=True))
    replay, ratio = case.config.algorithm.replay, case.samples_per_step
    count = summary["learner_steps"] - record["learner_steps"]
    left = (case.config.steps or 0) - record["environment_steps"]
    share = count * replay.batch_size / (ratio * left) if replay is not None and ratio and left > 0 else None
    return dict(zip(_AFTER, (count, share), strict=True))


def worker_processes(parent: int) -> dict[int, int]:
    """Process ids of a run's workers by their numbers; `parent` is the run's process id."""
    found = {}
    ended = contextlib.suppress(FileNotFoundError, ProcessLookupError)  # a thread or a process, meanwhile
    for children in Path(f"/proc/{parent}/task").glob("*/children"):
        processes: list[str] = []
        with ended:
            processes = children.read_text().split()
        for process in map(int, processes):
            with ended:
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
    diverged = False
    case, config = settings.case, settings.case.config
    if isinstance(config.launcher, Simulated):
        path = Path(settings.folder).with_name("costs.json")
        write_output(path, json.dumps(case.costs))
        config = replace(config, launcher=replace(config.launcher, costs=path))
    heading = Heading.of(config, Path(settings.folder))
    with (
        RunDirectory.create(Path(settings.folder), config.to_json()) as run,
        open_display(heading, quiet=True) as shown,
    ):
        if case.killed:
            step = int(_KILL_AT * (config.steps or 0))
            threading.Thread(target=kill_workers, args=(run, case.killed, step, killed), daemon=True).start()
        try:
            train(config, run, shown)
        except DivergenceError:
            diverged = True
    answer([killed, diverged])


if __name__ == "__main__":
    try:
        _train()
    except HeadraceError as error:
        sys.exit(str(error))
