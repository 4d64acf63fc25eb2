"""Measures the runs that are missing, each in a fresh process, and keeps a row of each as soon as it is measured."""

import itertools
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.measure import origin, read_csv
from benchmarks.outcome import run_process
from benchmarks.validation.cases import Case, Plan
from benchmarks.validation.contender import COLUMNS
from headrace.algorithms.config import Algorithm
from headrace.errors import ConfigError
from headrace.studies.results import write_rows

__all__ = ["Run", "calibrate_once", "estimate_seconds", "measure", "require_same", "start_run"]

_SLOWER, _EXTRA_SECONDS = 10.0, 600.0
"""A run is killed after this many times its training seconds, and these for its start and evaluations."""
_GUESS_SECONDS = 60.0
"""Of a run while there is no row like it: one of LunarLander-v3 to 200."""
_CALIBRATION_SECONDS = 20.0

Run = Callable[[Plan, Case], Mapping[str, Any] | None]
"""Makes a run; returns its columns, or None if it failed."""


def require_same(rows: Sequence[Mapping[str, str]], plan: Plan) -> None:
    """Raises ConfigError if a row is of another environment, score, time limit or number of cores."""
    for row in rows:
        other = [f"{name} {row[name]}" for name, value in plan.columns.items() if row[name] != value]
        if other:
            raise ConfigError(f"the output folder has runs of {', '.join(other)}: another --output is required")


def calibrate_once(environment: str, algorithm: Algorithm, path: Path) -> str:
    """Measures the costs of the algorithm's work on this machine, unless there is a file with them.

    Returns the link that was measured with them. Raises ConfigError if they are of another environment, another
    algorithm or other settings, or if the file does not say of which.
    """
    from headrace.simulation.calibration import calibrate, write_costs

    if not path.exists():
        print(f"measures costs, into {path}", flush=True)
        write_costs(calibrate(environment, algorithm, _CALIBRATION_SECONDS), path)
    made: Mapping[str, Any] = json.loads(path.read_text())["calibration"]
    settings = json.loads(json.dumps(algorithm.to_record()))
    for name, value, other in (("environment", environment, "another"), ("settings", settings, "other")):
        if name not in made:
            raise ConfigError(f"{path} names no {name} of its costs: move it away")
        if made[name] != value:
            raise ConfigError(f"{path} has the costs of {other} {name}: move it away")
    link: str = made["link"]
    return link


def measure(plan: Plan, cases: Sequence[Case], path: Path, run: Run) -> bool:
    """Measures what is missing, in order; returns whether all runs succeeded.

    Real runs are made alone. Simulated ones, whose results do not depend on how busy this machine is, take a core each.
    """
    succeeded = True
    for mode, group in itertools.groupby(cases, lambda case: case.mode):
        rows = read_csv(path)
        missing = [case for case in group if not any(case.is_of(row) for row in rows)]
        if missing:
            print(f"validation: {estimate_seconds(cases, rows, plan.cores) / 60:.0f} minutes left", flush=True)
        with ThreadPoolExecutor(plan.cores if mode == "simulated" else 1) as pool:
            runs = {pool.submit(_measure_one, plan, case, run): case for case in missing}
            try:
                for made in as_completed(runs):
                    succeeded &= _keep(path, plan, runs[made], *made.result())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C, none of the others is begun
    return succeeded


def _measure_one(plan: Plan, case: Case, run: Run) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """The run's columns; the seconds that its process took, and its origin."""
    print(f"validation: {case.mode} {case.setup.name}, seed {case.seed}", flush=True)
    source, begin = origin(), monotonic()  # of now: a commit during the run is none of it
    outcome = run(plan, case)
    return outcome, {"process_seconds": monotonic() - begin, **source}


def _keep(path: Path, plan: Plan, case: Case, outcome: Mapping[str, Any] | None, source: Mapping[str, Any]) -> bool:
    """Adds a run's row; returns whether it succeeded."""
    if outcome is None:
        return False
    row = {**plan.columns, **case.columns, **outcome, **source}
    write_rows(path, [*read_csv(path), row])
    seconds, steps = outcome["seconds_to_score"], outcome["steps_to_score"]
    reached = "score not reached" if steps is None else f"{seconds:.1f} s, {steps:,} steps"
    print(f"  {case.mode} {case.setup.name}, seed {case.seed}: {reached}", flush=True)
    return True


def estimate_seconds(cases: Sequence[Case], rows: Sequence[Mapping[str, str]], cores: int) -> float:
    """Time that the cases without a row take: each as long as the median of its kind, or of all, or a guess.

    Of simulated ones, as many as there are cores run at the same time.
    """
    everything = [float(row["process_seconds"]) for row in rows]
    total = 0.0
    for case in cases:
        if not any(case.is_of(row) for row in rows):
            like = [float(row["process_seconds"]) for row in rows if case._replace(seed=int(row["seed"])).is_of(row)]
            seconds = statistics.median(like or everything or [_GUESS_SECONDS])
            total += seconds / cores if case.mode == "simulated" else seconds
    return total


def start_run(plan: Plan, case: Case) -> Mapping[str, Any] | None:
    """A run in a fresh process. One that has to be killed has empty columns."""
    title = f"validation: {case.mode} {case.setup.name}, seed {case.seed}"
    arguments = json.dumps(plan), json.dumps(case)
    limit = _SLOWER * plan.most_seconds + _EXTRA_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        made = run_process(title, "benchmarks.validation.contender", arguments, Path(folder), limit)
    return {**dict.fromkeys(COLUMNS), "ended": "killed"} if made == {} else made
