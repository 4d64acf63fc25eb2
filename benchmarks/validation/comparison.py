"""Compares simulated with real runs: their speed, and the distribution of steps to the score.

A run that is evaluated by time is solved at one of few moments. Two runs that are solved at the same evaluation and
differ in speed by 3 % have different steps, and a test of the steps themselves tells a difference in speed, not in
learning. So steps count in whole evaluation periods of the real runs.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from scipy.stats import ks_2samp

from benchmarks.outcome import EVALUATION_PERIOD_SECONDS
from benchmarks.validation.cases import SETUPS, Setup
from headrace.studies.statistics import probability_of_more

__all__ = ["compare", "steps_to_score"]

_WITHIN = 0.1
"""Required distance of the ratio of speeds from 1."""
_LEVEL = 0.05
"""Probability below which two distributions count as different."""
_FEWEST = 5
"""Runs of each kind below which nothing is decided."""

Rows = Sequence[Mapping[str, str]]


def compare(rows: Rows) -> list[dict[str, Any]]:
    """A record for each topology that has real and simulated runs."""
    records = []
    for setup in SETUPS:
        real, simulated = (chosen(rows, setup, mode) for mode in ("real", "simulated"))
        if real and simulated:
            records.append(_compare(setup, real, simulated))
    return records


def _compare(setup: Setup, real: Rows, simulated: Rows) -> dict[str, Any]:
    speeds = [_median(each, "updates_per_second") for each in (real, simulated)]
    ratio = speeds[1] / speeds[0] if speeds[0] else math.nan
    steps = [steps_to_score(each) for each in (real, simulated)]
    period = _period_steps(setup, real)
    periods = [[_rounded(each / period) for each in some] for some in steps]
    p, p_of_steps = (float(ks_2samp(*each, method="exact").pvalue) for each in (periods, steps))
    enough = min(len(real), len(simulated)) >= _FEWEST
    return {
        "topology": setup.name,
        "real_runs": len(real),
        "simulated_runs": len(simulated),
        "real_updates_per_second": speeds[0],
        "simulated_updates_per_second": speeds[1],
        "ratio": ratio,
        "speed": _verdict(abs(ratio - 1) <= _WITHIN, enough=enough),
        "real_steps": statistics.median(steps[0]),
        "simulated_steps": statistics.median(steps[1]),
        "more_steps": probability_of_more(*steps),
        "period_steps": period,
        "p": p,
        "p_of_exact_steps": p_of_steps,
        "steps": _verdict(p > _LEVEL, "not told apart", enough=enough),
    }


def _period_steps(setup: Setup, real: Rows) -> float:
    """Environment steps between two evaluations of the real runs; serial ones count every step."""
    rate = _median(real, "steps_per_second")
    return 1.0 if setup.topology == "serial" or math.isnan(rate) else EVALUATION_PERIOD_SECONDS * rate


def _rounded(periods: float) -> float:
    return periods if math.isinf(periods) else round(periods)


def chosen(rows: Rows, setup: Setup, mode: str) -> Rows:
    """The runs of a topology."""
    key = (setup.topology, str(setup.processes), mode)
    return [row for row in rows if (row["topology"], row["processes"], row["mode"]) == key]


def steps_to_score(rows: Rows) -> list[float]:
    """Environment steps to the score; infinite for a run that did not reach it."""
    return [float(row["steps_to_score"] or math.inf) for row in rows]


def _median(rows: Rows, column: str) -> float:
    """Of the runs that were not killed; nan without one."""
    values = [float(row[column]) for row in rows if row[column]]
    return statistics.median(values) if values else math.nan


def _verdict(holds: bool, so: str = "holds", *, enough: bool) -> str:
    return (so if holds else "MISSED") if enough else "undecided"
