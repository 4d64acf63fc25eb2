"""Training time until 100 greedy episodes average a score: Headrace against Stable-Baselines3's DQN.

Each has the whole machine, one after the other, with each seed in a new process. Every 10 seconds of training (or
--evaluation-period), or earlier if training episodes already reach the score, 10 greedy episodes are played; if these
reach it too, 100 episodes decide. Evaluations are off the clock, and the same function evaluates both on the same
episodes.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Rows, make_parser, positive, positive_number, require, run
from benchmarks.outcome import EVALUATION_PERIOD_SECONDS, run_process
from headrace.environments import describe

_ROOT = Path(__file__).parent.parent
_AT_MOST = 0.25


def _parse() -> argparse.Namespace:
    parser = make_parser(__doc__)
    parser.add_argument("--system", choices=("headrace", "sb3", "both"), default="both")
    parser.add_argument("--environment", default="LunarLander-v3")
    parser.add_argument("--score", type=float, default=200.0)
    parser.add_argument("--seeds", type=positive, default=3, help="seeds 0 .. N-1")
    parser.add_argument("--time-limit", type=positive_number, default=600.0, help="training seconds of each run")
    parser.add_argument(
        "--evaluation-period",
        type=positive_number,
        default=EVALUATION_PERIOD_SECONDS,
        help="training seconds between evaluations",
    )
    return parser.parse_args()


def _run(system: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One run in a fresh process, as a record."""
    values = [
        system,
        arguments.environment,
        seed,
        arguments.score,
        arguments.time_limit,
        arguments.evaluation_period,
    ]
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_process(f"time_to_score: {system}, seed {seed}", "benchmarks.contenders", values, Path(folder))
    if outcome is None:
        sys.exit(2)
    record = {
        "system": system,
        "environment": arguments.environment,
        "score": arguments.score,
        "seed": seed,
        "seconds_to_score": _round(outcome["seconds_to_score"]),
        "environment_steps": outcome["environment_steps"],
        "mean_return": _round(outcome["mean_return"]),
        "fresh_mean": _round(outcome["fresh_mean"]),
        "solved": outcome["seconds_to_score"] is not None,
        "time_limit": arguments.time_limit,
        "settings": outcome["settings"],
    }
    reached = f"{record['seconds_to_score']} s" if record["solved"] else f"not in {arguments.time_limit:g} s"
    print(
        f"{system}, seed {seed}: {reached}, {record['environment_steps']:,} steps, mean {record['mean_return']}",
        flush=True,
    )
    return record


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _summarize(records: list[dict[str, Any]]) -> int:
    """Prints medians and their ratio; a run that misses the score counts as its time limit."""
    table = Table(title=f"seconds until {records[0]['environment']} averages {records[0]['score']:g}")
    for column in ("system", "solved", "median", "all"):
        table.add_column(column)
    medians = {}
    for system in dict.fromkeys(record["system"] for record in records):
        runs = [record for record in records if record["system"] == system]
        seconds = [run["seconds_to_score"] if run["solved"] else run["time_limit"] for run in runs]
        medians[system] = statistics.median(seconds)
        times = ", ".join(
            f"{value:.0f}" if run["solved"] else f">{value:.0f}" for run, value in zip(runs, seconds, strict=True)
        )
        table.add_row(system, f"{sum(run['solved'] for run in runs)} of {len(runs)}", f"{medians[system]:.0f}", times)
    Console().print(table)
    if len(medians) < 2:
        return 0
    ratio = medians["headrace"] / medians["sb3"]
    holds = ratio <= _AT_MOST and all(record["solved"] for record in records if record["system"] == "headrace")
    print(f"headrace / sb3: {ratio:.3f}; required <= {_AT_MOST}, every seed solved: {'holds' if holds else 'MISSED'}")
    return int(not holds)


def main() -> int:
    """Runs every seed of every system and writes a CSV of all runs; returns status 1 if the requirement is missed."""
    arguments = _parse()
    systems = ("headrace", "sb3") if arguments.system == "both" else (arguments.system,)
    require("headrace", *(("stable_baselines3",) if "sb3" in systems else ()))
    describe(arguments.environment)
    name = f"time_to_score_{Path(arguments.environment).name.split('-', maxsplit=1)[0].lower()}"
    if arguments.system != "both":
        name += f"_{arguments.system}"
    with Rows(name) as rows:
        for seed in range(arguments.seeds):
            for system in systems:
                rows.add(_run(system, arguments, seed))
    print(f"written to {rows.path.relative_to(_ROOT)}")
    return _summarize(rows.records)


if __name__ == "__main__":
    run(main)
