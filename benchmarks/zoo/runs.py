"""Measures the runs that are missing, each in a fresh process, and keeps a row of each as soon as it is measured."""

import importlib.util
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import RESULTS, origin, read_csv
from benchmarks.outcome import run_process
from benchmarks.zoo.published import PEERS
from benchmarks.zoo.tasks import HEADRACE, TASKS, TIMED, Task, systems_of
from headrace.machine import available_cores
from headrace.settings import preset
from headrace.studies.results import make_folder, write_rows
from headrace.studies.sheet import fingerprint

__all__ = ["FAILED", "FOLDER", "RUNS", "measure", "policy_path", "read_rows"]

FOLDER = RESULTS / "zoo"
RUNS = FOLDER / "runs.csv"
_POLICIES = FOLDER / "policies"
_EXTRA_SECONDS = 1_800.0
"""Evaluations and start of a run, beyond its training seconds, before it is killed."""
FAILED = "failed"
"""How a run ended that raised an error."""
_MODULES = {"sb3": "stable_baselines3", "cleanrl": "torch", "torchrl": "torchrl"}
_SUITES = {
    "dm_control/": "dm_control",
    "minigrid/": "minigrid",
    "LunarLander": "Box2D",
    "BipedalWalker": "Box2D",
    **dict.fromkeys(("HalfCheetah", "Hopper", "Walker2d", "Ant"), "mujoco"),
}


def read_rows(path: Path = RUNS) -> list[dict[str, str]]:
    """The rows so far; none if there is no file."""
    return read_csv(path)


def policy_path(system: str, task: str, seed: int, suffix: str) -> Path:
    """Where the policy of a run of this package is kept, .onnx, and its settings, .json."""
    return _POLICIES / f"{task.replace('/', '-')}-{system}-{seed}{suffix}"


def measure(seeds: int, systems: Sequence[str], only: Sequence[str], most_seconds: float) -> int:
    """Measures what is missing, seed by seed; returns 2 if a run failed, 1 if one of them missed its score, else 0.

    A run that failed is a row without a score, and is tried again. A run that would not be like the other seeds of its
    system and task is not made, and counts as failed. So does asking for what no task has.
    """
    make_folder(_POLICIES)
    wanted = list(_wanted(seeds, systems, only))
    failed = not wanted
    if failed:
        print("zoo: there is nothing to measure: no chosen task has one of the chosen systems that is installed")
    for system, task, seed in wanted:
        place = (system, task.name, str(seed))
        measured = [row for row in read_rows() if row["ended"] != FAILED and _place(row)[:2] == place[:2]]
        if any(_place(row) == place for row in measured):
            continue
        differs = _difference(system, task, most_seconds, measured)
        if differs:
            print(f"zoo: {system}, {task.name}, seed {seed}: its other seeds have {differs}: move their rows away")
            failed = True
            continue
        row = _run(system, task, seed, most_seconds)
        failed |= row["ended"] == FAILED
        write_rows(RUNS, [*(each for each in read_rows() if _place(each) != place), row])  # others may have added some
    places = {(system, task.name, str(seed)) for system, task, seed in wanted if system in HEADRACE}
    missed = [row for row in read_rows() if _place(row) in places and row["holds"] != "True"]
    for row in missed:
        score = f"scored {row['fresh_mean']}" if row["fresh_mean"] else "has no score"
        print(f"zoo: MISSED: {row['system']}, {row['task']}, seed {row['seed']} {score}, {row['required']} is required")
    return 2 if failed else int(bool(missed))


def _difference(system: str, task: Task, most_seconds: float, rows: Sequence[dict[str, str]]) -> str:
    """In what the rows of other seeds differ from a run that is measured now; empty if in nothing.

    Limits count where they ended a run. Rows of earlier versions lack the period and the settings' fingerprint.
    """
    now = {
        "stop_at": f"{task.stop_at:g}",
        "required": f"{task.required:g}",
        "cores": str(available_cores()),
        "fingerprint": _fingerprint(system, task),
        **{name: f"{value:g}" for name, value in _period(system, task).items()},
    }
    limits = {"most_steps": str(task.most_steps(system)), "most_seconds": f"{most_seconds:g}"}
    found = set()
    for row in rows:
        required = now if row["ended"] == "score" else now | limits
        found |= {
            f"{name} {row[name]}, not {value}"
            for name, value in required.items()
            if row[name] and row[name].removesuffix(".0") != value
        }
    return " and ".join(sorted(found))


def _period(system: str, task: Task) -> dict[str, float]:
    """The period of a system's evaluations, in environment steps or in seconds."""
    return {"period_seconds": task.period_seconds} if system in TIMED else {"period_steps": task.period_steps}


def _fingerprint(system: str, task: Task) -> str:
    """A name for the settings of a run, equal for equal ones."""
    if system not in HEADRACE:
        return fingerprint(system, PEERS[system][task.algorithm][task.environment])
    known = preset(task.environment, task.algorithm, frugal=system == "frugal")
    return fingerprint(system, [known.algorithm.to_record(), known.topology("serial"), known.topology("apex")])


def _place(row: dict[str, str]) -> tuple[str, str, str]:
    return row["system"], row["task"], row["seed"]


def _wanted(seeds: int, systems: Sequence[str], only: Sequence[str]) -> Iterator[tuple[str, Task, int]]:
    """All runs, seed by seed, so that an interrupted measurement has as many seeds of each; says what is left out."""
    missing = {name: module for name, module in _MODULES.items() if importlib.util.find_spec(module) is None}
    for name, module in missing.items():
        if name in systems:
            print(f"zoo: {name} is left out: {module} is not installed", flush=True)
    absent = [prefix for prefix, module in _SUITES.items() if importlib.util.find_spec(module) is None]
    tasks = [task for task in TASKS if not only or task.name in only]
    for task in tasks:
        if task.environment.startswith(tuple(absent)):
            print(f"zoo: {task.name} is left out: its environment is not installed", flush=True)
    for seed in range(seeds):
        for task in tasks:
            if not task.environment.startswith(tuple(absent)):
                for system in systems_of(task):
                    if system in systems and system not in missing:
                        yield system, task, seed


def _run(system: str, task: Task, seed: int, most_seconds: float) -> dict[str, Any]:
    """One run in a fresh process as a row, without a score if it failed, diverged or had to be killed."""
    source = origin()  # of now: a commit during the run is none of it
    with tempfile.TemporaryDirectory() as place:
        folder, arguments = Path(place), (system, task.name, seed, most_seconds)
        title = f"zoo: {system}, {task.name}, seed {seed}"
        outcome = run_process(title, "benchmarks.zoo.contender", arguments, folder, most_seconds + _EXTRA_SECONDS)
        for name in ("policy.onnx", "config.json"):
            made = folder / name
            if made.exists():
                policy_path(system, task.name, seed, made.suffix).write_bytes(made.read_bytes())
    row = _row(system, task, seed, most_seconds, outcome)
    print(f"{system}, {task.name}, seed {seed}: {json.dumps({key: row[key] for key in _SHOWN})}", flush=True)
    return row | source


_SHOWN = ("ended", "seconds_to_score", "steps_to_score", "fresh_mean", "holds")


def _row(system: str, task: Task, seed: int, most_seconds: float, outcome: dict[str, Any] | None) -> dict[str, Any]:
    """`outcome` is None for a run that failed, and {} for one that was killed."""
    ended = FAILED if outcome is None else "limit" if outcome else "killed"
    outcome = outcome or {}
    if "diverged" in outcome:
        ended = "diverged"
    reached = outcome.get("seconds_to_score") is not None
    fresh = outcome.get("fresh_mean")
    fields = ("seconds_to_score", "steps_to_score", "environment_steps", "updates", "seconds", "mean_return")
    return {
        "system": system,
        "task": task.name,
        "seed": seed,
        "stop_at": task.stop_at,
        "required": task.required,
        "most_steps": task.most_steps(system),
        "most_seconds": most_seconds,
        **dict.fromkeys(("period_steps", "period_seconds"), ""),
        **_period(system, task),
        "fingerprint": _fingerprint(system, task),
        "ended": "score" if reached else ended,
        **{name: outcome.get(name) for name in fields},
        "fresh_mean": fresh,
        "fresh_std": outcome.get("fresh_std"),
        "holds": str(fresh is not None and fresh >= task.required),
        "settings": outcome.get("settings", ""),
    }
