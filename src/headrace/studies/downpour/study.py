"""`headrace study downpour`."""

import importlib.util
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headrace.errors import LaunchError
from headrace.studies.base import Scale
from headrace.studies.downpour import scaling, timing
from headrace.studies.downpour.cases import TrainingCase
from headrace.studies.downpour.comparisons import compare
from headrace.studies.downpour.options import DownpourOptions, Part
from headrace.studies.downpour.plan import LANDER, Plan, make_plan
from headrace.studies.downpour.scaling import measure_scaling
from headrace.studies.downpour.timing import measure_timing
from headrace.studies.downpour.training import CURVE_COLUMNS, RUN_COLUMNS, train_case
from headrace.studies.filling import Case, Rows, Say, fill
from headrace.studies.results import Origin, make_folder, write_csv
from headrace.studies.sheet import Sheet

__all__ = ["Downpour", "Sheets", "possible", "run_plan"]

_COLUMNS: dict[str, tuple[str, ...]] = {
    "timing": timing.COLUMNS,
    "scaling": scaling.COLUMNS,
    "reward": RUN_COLUMNS,
    "staleness": RUN_COLUMNS,
    "curves": CURVE_COLUMNS,
}
C = TypeVar("C", bound=Case)


class Sheets(NamedTuple):
    """The CSV files of the study."""

    timing: Sheet
    scaling: Sheet
    reward: Sheet
    staleness: Sheet
    curves: Sheet

    @staticmethod
    def open(output: Path, origin: Origin) -> "Sheets":
        """Those of a folder, with what they hold already."""
        return Sheets(**{name: Sheet(output / f"{name}.csv", origin, columns) for name, columns in _COLUMNS.items()})


class Downpour:
    """Workers that send gradients to a parameter server; implements `Study`."""

    name = "downpour"
    summary = "workers that send gradients to a parameter server, and play Snake (Ong et al., Downpour SGD)"
    options = DownpourOptions

    def run(self, scale: Scale, output: Path, options: DownpourOptions, say: Say) -> Path:
        """Measures what `output` does not hold yet, and writes; see `Study`. LaunchError where a case failed."""
        words = ["headrace", "study", self.name, *options.words(), "--scale", scale, "--output", str(output)]
        return run_plan(make_plan(scale, options), options.chosen_parts(), output, say, Origin.here(shlex.join(words)))


def run_plan(plan: Plan, parts: tuple[Part, ...], output: Path, say: Say, origin: Origin) -> Path:
    """Measures what this machine allows of these parts, case by case into CSV files; returns the page of all parts.

    Raises LaunchError at the end where a case failed; starting again with the same folder measures those alone.
    """
    from headrace.studies.downpour.page import write_page

    make_folder(output)
    sheets = Sheets.open(output, origin)
    parts, notes = possible(plan, parts)
    for note in notes:
        say(note)
    failures: list[str] = []
    page = output / "downpour.html"
    try:
        _measure(plan, parts, output, sheets, failures, say)
    finally:  # interrupted, too: the page shows how far it came
        comparisons = compare(
            sheets.timing.of(case.name for case in plan.timing), sheets.reward.of(case.name for case in plan.reward)
        )
        write_csv(output / "comparisons.csv", [each._asdict() for each in comparisons], origin)
        write_page(page, plan, sheets, comparisons, [*notes, *failures], origin)
    if failures:
        raise LaunchError(f"{len(failures)} case{'s' if len(failures) > 1 else ''} failed; {page} has the rest")
    return page


def possible(plan: Plan, parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], list[str]]:
    """Those of the parts that can run here, and a note for what can't."""
    if importlib.util.find_spec("Box2D") is not None or not plan.staleness or "staleness" not in parts:
        return parts, []
    note = f'{len(plan.staleness)} runs of {LANDER} are left out: pip install "headrace[box2d]"'
    return tuple(part for part in parts if part != "staleness"), [note]


def _measure(plan: Plan, parts: tuple[Part, ...], output: Path, sheets: Sheets, failures: list[str], say: Say) -> None:
    """Measures all of these parts that the sheets have not; what goes wrong is added to `failures`."""

    def measure(part: Part, cases: tuple[C, ...], sheet: Sheet, rows_of: Callable[[C], Rows]) -> None:
        if part in parts:
            fill(part, cases, sheet, rows_of, _told, failures, say)

    def train(case: TrainingCase) -> Rows:
        """The run's row; its curve is written before, so that a run that is in the one file is whole."""
        run, curve = train_case(case, output / "runs" / case.name)
        sheets.curves.put(case.name, curve)
        return [run]

    measure("timing", plan.timing, sheets.timing, lambda case: [measure_timing(case)])
    measure("scaling", plan.scaling, sheets.scaling, lambda case: [measure_scaling(case)])
    measure("reward", plan.reward, sheets.reward, train)
    measure("staleness", plan.staleness, sheets.staleness, train)


_TOLD = {
    "gradient_ms": "gradient {:,.3g} ms",
    "share": "{:.1%} of it for push and fetch",
    "updates_per_second": "{:,.0f} updates/s",
    "final_return": "final score {:,.1f}",
    "wall_seconds": "{:,.0f} s",
    "staleness": "staleness {:,.3g}",
}


def _told(row: Mapping[str, Any]) -> str:
    """The figures of a row that one looks for first."""
    return ", ".join(form.format(row[field]) for field, form in _TOLD.items() if row.get(field) is not None)
