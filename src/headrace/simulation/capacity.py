"""Predicts a run's speed on machines of other sizes, by simulated runs."""

import contextlib
import csv
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headrace.launch.simulated import Simulated
from headrace.report.display import QuietDisplay
from headrace.report.output import while_writing
from headrace.report.rates import steady_rate
from headrace.report.run_directory import RunDirectory
from headrace.settings import RunConfig
from headrace.training import train

__all__ = ["Prediction", "Score", "find_knee", "name_bottleneck", "predict", "write_tables"]

_WAITS = 0.1
"""Share of a side's time above which its waiting is the bottleneck."""
_GAIN = 0.5
"""More cores that raise the speed by less than half as much as they increase are beyond the knee."""
_TOO_SHORT = "too short to tell"
"""The run ended within about a second of when all had begun."""


class Score(NamedTuple):
    """An evaluation."""

    cores: int
    seconds: float
    environment_steps: int
    mean_return: float


class Prediction(NamedTuple):
    """One simulated run."""

    cores: int
    steps_per_second: float
    """From when all roles have begun and the learner has; 0 if the run ended about then."""
    updates_per_second: float
    staleness: float | None
    cores_busy: float
    """Share of the cores, while training."""
    bottleneck: str
    seconds: float
    environment_steps: int
    learner_steps: int
    mean_return: float | None
    stopped_by: str
    scores: tuple[Score, ...] = ()


def predict(config: RunConfig, cores: Sequence[int], path: Path, say: Callable[[str], object]) -> Iterator[Prediction]:
    """Simulates the run on each number of cores, in directories below `path`. The launcher must be `Simulated`."""
    launcher = config.launcher
    assert isinstance(launcher, Simulated)
    sized = [dataclasses.replace(config, launcher=dataclasses.replace(launcher, cores=count)) for count in cores]
    made = not path.exists()
    for count, each in zip(cores, sized, strict=True):
        with _leaving(path, made), RunDirectory.create(path / f"cores-{count}", each.to_json()) as run:
            with run.discarded_unless_used():
                summary = train(each, run, QuietDisplay()).summary
            if summary["stopped_by"] == "interrupt":
                raise KeyboardInterrupt
            prediction = _read(count, summary, run.metrics_path)
        say(f"{count} cores: {prediction.steps_per_second:,.0f} steps/s, {prediction.bottleneck}")
        yield prediction


@contextlib.contextmanager
def _leaving(path: Path, made: bool) -> Iterator[None]:
    """A context that removes the folder after an error, if it was made for this and nothing is in it."""
    try:
        yield
    except BaseException:
        if made:
            with contextlib.suppress(OSError):  # it may hold other runs
                path.rmdir()
        raise


def name_bottleneck(summary: Mapping[str, Any]) -> str:
    """Who waits for whom most, if that is more than a tenth of its time."""
    acting, learning, workers = summary["actor_times"], summary["learner_times"], summary["workers"]
    if workers is not None:
        total = sum(acting.values()) + sum(learning.values())
        waits = {
            "workers wait for the lock": _share(workers["lock_wait_seconds"], total),
            "workers wait for parameters": _share(max(acting["pull"], workers["pull_seconds"]), total),
        }
        if summary["topology"] == "parameter-server":
            waits["workers wait for the server"] = _share(workers["apply_seconds"], total)
    elif summary["topology"] == "serial":
        waits = {}
    else:
        waits = {
            "actors wait for the learner": _share(acting["blocked"], sum(acting.values())),
            "the learner waits for actors": _share(learning["wait"], sum(learning.values())),
        }
    worst = max(waits, key=lambda name: waits[name], default="")
    return worst if waits.get(worst, 0.0) > _WAITS else "all compute"


def find_knee(predictions: Sequence[Prediction]) -> int:
    """The number of cores beyond which more of them are less than half as useful, of sizes that made steps."""
    begun = [each for each in predictions if each.steps_per_second] or predictions[:1]
    for before, after in itertools.pairwise(begun):
        gain = after.steps_per_second / before.steps_per_second - 1
        if gain < _GAIN * (after.cores / before.cores - 1):
            return before.cores
    return begun[-1].cores


def write_tables(predictions: Sequence[Prediction], path: Path) -> None:
    """Writes capacity.csv, a row for each number of cores, and scores.csv, one for each evaluation."""
    fields = [name for name in Prediction._fields if name != "scores"]
    rows = [[getattr(each, name) for name in fields] for each in predictions]
    _write(path / "capacity.csv", fields, rows)
    _write(path / "scores.csv", Score._fields, [list(score) for each in predictions for score in each.scores])


def _read(cores: int, summary: Mapping[str, Any], metrics: Path) -> Prediction:
    records = [json.loads(line) for line in metrics.read_text().splitlines()]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    progress = [record for record in records if record["kind"] == "progress"]
    seconds, steps, updates = summary["wall_seconds"], summary["environment_steps"], summary["learner_steps"]
    speeds = [steady_rate(progress, field) for field in ("environment_steps", "learner_steps")]
    return Prediction(
        cores,
        speeds[0] or 0.0,
        speeds[1] or 0.0,
        summary["staleness"],
        sum(summary["busy_cores"].values()) / cores,
        _TOO_SHORT if None in speeds else name_bottleneck(summary),
        seconds,
        steps,
        updates,
        summary["mean_return"],
        summary["stopped_by"],
        tuple(Score(cores, each["seconds"], each["environment_steps"], each["mean_return"]) for each in evaluations),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _write(path: Path, fields: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with while_writing(path), path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(fields)
        writer.writerows(rows)
