"""Simulated runs (docs/simulation.md) against real ones on this machine, with the same settings and seeds.

    python -m benchmarks.validation [--seeds 10] [--topologies serial apex ...] [--modes real] [--output FOLDER]

First measures what work costs here (costs.json). A row is added to runs.csv for each run as soon as it ends; started
again, it measures what is missing: seed by seed, so that it may be interrupted at any time. Then writes comparison.csv
and steps.svg. Required of each topology: medians of updates per second within 10 %, and steps to the score that a
Kolmogorov-Smirnov test does not tell apart (p > 0.05); undecided with fewer than 5 seeds. Exit status 1: one is missed.
2: a run failed.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import (
    RESULTS,
    make_parser,
    origin,
    positive,
    positive_number,
    read_csv,
    require,
    run,
    warn_if_busy,
)
from benchmarks.validation.cases import MODES, SETUPS, Plan, list_cases
from benchmarks.validation.runs import calibrate_once, estimate_seconds, measure, require_same, start_run
from headrace.environments import describe
from headrace.errors import ConfigError
from headrace.machine import available_cores
from headrace.report.output import write_output
from headrace.settings import preset
from headrace.studies.results import make_folder, write_rows


def main() -> int:
    """Does what the arguments say; returns the exit status."""
    options = _parse()
    require("headrace", "scipy")
    succeeded = _measure(options)
    return max(0 if succeeded else 2, _report(options.output))


def _parse() -> argparse.Namespace:
    parser = make_parser(__doc__)
    names = [setup.name for setup in SETUPS]
    parser.add_argument("--environment", default="LunarLander-v3")
    parser.add_argument("--score", type=float, default=200.0, help="mean of 100 greedy episodes that ends a run")
    parser.add_argument("--seeds", type=positive, default=10, help="seeds 0 .. N-1")
    parser.add_argument("--topologies", nargs="+", choices=names, default=names)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES, help="real runs need an idle machine")
    parser.add_argument(
        "--cores", type=positive, default=2, help="of the simulated machine, and of this one that are used"
    )
    parser.add_argument("--time-limit", type=positive_number, default=300.0, help="training seconds of each run")
    parser.add_argument("--output", type=Path, default=RESULTS / "validation")
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> bool:
    describe(options.environment)
    if options.cores > available_cores():
        raise ConfigError(
            f"cores is {options.cores}; a number from 1 to this machine's {available_cores()} is required"
        )
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])  # for the calibration and all runs
    make_folder(options.output)
    costs, runs = options.output / "costs.json", options.output / "runs.csv"
    setups = [setup for setup in SETUPS if setup.name in options.topologies]
    cases = [case for case in list_cases(options.seeds, setups) if case.mode in options.modes]
    plan = Plan(options.environment, options.score, options.cores, options.time_limit, str(costs.resolve()))
    rows = read_csv(runs)
    require_same(rows, plan)
    missing = sum(not any(case.is_of(row) for row in rows) for case in cases)
    if not missing:
        return True
    warn_if_busy()
    minutes = estimate_seconds(cases, rows, options.cores) / 60
    print(f"validation: {missing} of {len(cases)} runs are missing; they take about {minutes:.0f} minutes", flush=True)
    link = calibrate_once(options.environment, preset(options.environment).algorithm, costs)
    return measure(plan._replace(link=link), cases, runs, start_run)


def _report(folder: Path) -> int:
    """Writes the comparison and the plot, and prints it; returns 1 if a requirement is missed."""
    from benchmarks.validation.comparison import compare
    from benchmarks.validation.plots import draw_steps

    rows = read_csv(folder / "runs.csv")
    records = compare(rows)
    write_rows(folder / "comparison.csv", [record | origin() for record in records])
    write_output(folder / "steps.svg", draw_steps(rows))
    table = Table(title="simulated against real runs")
    for column in ("", "runs", "updates/s", "ratio", "", "median steps", "P(more)", "p", ""):
        table.add_column(column)
    for record in records:
        table.add_row(*_cells(record), style="bold red" if "MISSED" in (record["speed"], record["steps"]) else None)
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    print(f"written to {folder}: runs.csv, comparison.csv, steps.svg")
    return int(any("MISSED" in (record["speed"], record["steps"]) for record in records))


def _cells(record: dict[str, Any]) -> tuple[str, ...]:
    return (
        record["topology"],
        f"{record['simulated_runs']}, {record['real_runs']}",
        f"{record['simulated_updates_per_second']:.0f}, {record['real_updates_per_second']:.0f}",
        f"{record['ratio']:.2f}",
        record["speed"],
        f"{record['simulated_steps']:,.0f}, {record['real_steps']:,.0f}",
        f"{record['more_steps']:.2f}",
        f"{record['p']:.3f}",
        record["steps"],
    )


if __name__ == "__main__":
    run(main)
