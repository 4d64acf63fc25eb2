"""Puts a policy of each task into the package: of the run whose final score is the median over its seeds."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.outcome import CONFIRMATION_EPISODES, FRESH_SEED
from benchmarks.zoo.runs import policy_path, read_rows
from benchmarks.zoo.tasks import TASKS, Task
from headrace.zoo import KeptPolicy, kept_policies
from headrace.zoo.catalogue import FOLDER

__all__ = ["keep"]


def keep() -> int:
    """Writes the policies and their index; returns 1 if a task has none. One without runs here keeps what it has."""
    rows = read_rows()
    kept = kept_policies()
    index: dict[str, Any] = {}
    for task in TASKS:
        chosen = _median(rows, task)
        if chosen is not None:
            index[task.name] = asdict(_put(task, chosen))
            print(f"zoo: {task.name}: {chosen['system']}, seed {chosen['seed']}, {float(chosen['fresh_mean']):.1f}")
        elif task.name in kept:
            index[task.name] = asdict(kept[task.name])
        else:
            print(f"zoo: {task.name} has no policy here that reaches {task.required:g}")
    (FOLDER / "index.json").write_text(json.dumps(index, indent=2) + "\n")
    return int(len(index) < len(TASKS))


def _median(rows: list[dict[str, str]], task: Task) -> dict[str, str] | None:
    """The run with the median score, the lower one of two; serial if measured, since the same seed repeats it."""
    for system in ("serial", *task.systems, "frugal"):
        runs = [row for row in rows if row["task"] == task.name and row["system"] == system and row["holds"] == "True"]
        if not any(_file(row, ".onnx").exists() for row in runs):
            continue
        median = sorted(runs, key=lambda row: float(row["fresh_mean"]))[(len(runs) - 1) // 2]
        if _file(median, ".onnx").exists():
            return median
        print(f"zoo: {task.name}: the policy of {system}, seed {median['seed']}, with the median score is not here")
        return None
    return None


def _put(task: Task, row: dict[str, str]) -> KeptPolicy:
    name = f"{task.name.replace('/', '-')}.onnx"
    (FOLDER / name).write_bytes(_file(row, ".onnx").read_bytes())
    return KeptPolicy(
        environment=task.environment,
        algorithm=task.algorithm,
        file=name,
        mean_return=float(row["fresh_mean"]),
        std_return=float(row["fresh_std"]),
        episodes=CONFIRMATION_EPISODES,
        episode_seed=FRESH_SEED + int(row["seed"]),
        environment_steps=int(row["environment_steps"]),
        learner_steps=int(row["updates"]),
        training_seconds=float(row["seconds"]),
        config=json.loads(_file(row, ".json").read_text()),
        trained_by=row["command"],
        commit=row["commit"],
        date=row["date"],
    )


def _file(row: dict[str, str], suffix: str) -> Path:
    return policy_path(row["system"], row["task"], int(row["seed"]), suffix)
