"""`headrace study concurrency`."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.environments import describe
from headrace.errors import LaunchError
from headrace.studies.base import Scale
from headrace.studies.concurrency.cases import ENVIRONMENT, Case, Part
from headrace.studies.concurrency.comparisons import compare
from headrace.studies.concurrency.measure import COLUMNS, LATER_COLUMNS, measure, remake
from headrace.studies.concurrency.options import ConcurrencyOptions
from headrace.studies.concurrency.plan import Plan, make_plan
from headrace.studies.filling import Rows, Say, fill
from headrace.studies.results import Origin, make_folder, write_csv
from headrace.studies.sheet import Sheet

__all__ = ["Concurrency", "run_plan"]


class Concurrency:
    """Workers that act and learn, by number and by how they share parameters; implements `Study`."""

    name = "concurrency"
    summary = "lock, HogWild, parameter server, AD-PSGD, A3C and Dyna-Q against one process (LunarLander-v3 to 200)"
    options = ConcurrencyOptions

    def run(self, scale: Scale, output: Path, options: ConcurrencyOptions, say: Say) -> Path:
        """Measures what `output` does not hold yet, and writes; see `Study`. LaunchError where a case failed."""
        words = ["headrace", "study", self.name, *options.words(), "--scale", scale, "--output", str(output)]
        describe(ENVIRONMENT)  # ConfigError, and not one of each case, where Box2D is not installed
        parts = options.chosen_parts(scale)
        return run_plan(make_plan(scale, options), parts, output, say, Origin.here(shlex.join(words)))


def run_plan(plan: Plan, parts: tuple[Part, ...], output: Path, say: Say, origin: Origin) -> Path:
    """Measures these parts of a plan, case by case into CSV files, and returns the page of all parts.

    Raises LaunchError at the end where a case failed; starting again with the same folder measures those alone.
    """
    from headrace.studies.concurrency.page import write_page

    make_folder(output)
    sheets = {part: Sheet(output / f"{part}.csv", origin, COLUMNS, LATER_COLUMNS) for part in plan}
    for part, cases in plan.items():
        _complete(cases, sheets[part], output)
    failures: list[str] = []
    page = output / "concurrency.html"

    def measured(case: Case) -> Rows:
        return [measure(case, output / "runs" / case.name)]

    try:
        for part, cases in plan.items():
            if part in parts:
                fill(part, cases, sheets[part], measured, _told, failures, say)
    finally:  # interrupted, too: the page shows how far it came
        rows = {part: sheets[part].of(case.name for case in cases) for part, cases in plan.items()}
        comparisons = compare(rows["runs"], rows["throughput"], rows["ablation"], rows["faults"])
        write_csv(output / "comparisons.csv", [each._asdict() for each in comparisons], origin)
        write_page(page, rows, comparisons, failures, origin)
    if failures:
        raise LaunchError(f"{len(failures)} case{'s' if len(failures) > 1 else ''} failed; {page} has the rest")
    return page


def _complete(cases: tuple[Case, ...], sheet: Sheet, output: Path) -> None:
    """Makes those rows anew that lack all later columns, where their runs' records are there."""
    for case in cases:
        for row in sheet.of([case.name]):
            if all(row[column] is None for column in LATER_COLUMNS):
                values = remake(case, row, output / "runs" / case.name)
                if values is not None:
                    sheet.amend(case.name, values)


_TOLD = {
    "solved": "solved: {}",
    "seconds_to_score": "{:,.0f} s",
    "steps_to_score": "{:,} steps",
    "updates_per_second": "{:,.0f} updates/s",
    "score": "score {:,.1f}",
    "samples_per_step": "{:.3g} samples per step",
}


def _told(row: Mapping[str, Any]) -> str:
    """The figures of a row that one looks for first."""
    return ", ".join(form.format(row[field]) for field, form in _TOLD.items() if row[field] is not None)
