"""`headrace study actorq`."""

import dataclasses
import importlib.util
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headrace.environments.dm_control import is_dm_control
from headrace.errors import LaunchError
from headrace.studies.actorq import acting, crossover
from headrace.studies.actorq.acting import measure_acting
from headrace.studies.actorq.cases import TrainingCase
from headrace.studies.actorq.comparisons import compare
from headrace.studies.actorq.crossover import measure_crossover
from headrace.studies.actorq.energy import Energy
from headrace.studies.actorq.options import ActorQOptions
from headrace.studies.actorq.plan import Plan, make_plan
from headrace.studies.actorq.training import CURVE_COLUMNS, RUN_COLUMNS, Trained, train_case
from headrace.studies.base import Scale
from headrace.studies.filling import Case, Rows, Say, fill
from headrace.studies.results import Origin, make_folder, write_csv
from headrace.studies.sheet import Sheet

__all__ = ["ActorQ", "Sheets", "run_plan"]

_COLUMNS: dict[str, tuple[str, ...]] = {
    "throughput": acting.COLUMNS,
    "breakdown": acting.COLUMNS,
    "crossover": crossover.COLUMNS,
    "pull_periods": RUN_COLUMNS,
    "training": RUN_COLUMNS,
    "curves": CURVE_COLUMNS,
}
C = TypeVar("C", bound=Case)


class Sheets(NamedTuple):
    """The CSV files of the study."""

    throughput: Sheet
    breakdown: Sheet
    crossover: Sheet
    pull_periods: Sheet
    training: Sheet
    curves: Sheet

    @staticmethod
    def open(output: Path, origin: Origin) -> "Sheets":
        """Those of a folder, with what they hold already."""
        return Sheets(**{name: Sheet(output / f"{name}.csv", origin, columns) for name, columns in _COLUMNS.items()})


class ActorQ:
    """Quantized actors against actors in full precision; implements `Study`."""

    name = "actorq"
    summary = "actors in int8 and fp16 against fp32 around a full-precision learner (Krishnan et al., ActorQ)"
    options = ActorQOptions

    def run(self, scale: Scale, output: Path, options: ActorQOptions, say: Say) -> Path:
        """Measures what `output` does not hold yet, and writes; see `Study`. LaunchError where a case failed."""
        import torch

        words = ["headrace", "study", self.name, *options.words(), "--scale", scale, "--output", str(output)]
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return run_plan(make_plan(scale, options, device), output, say, Origin.here(shlex.join(words)))


def run_plan(plan: Plan, output: Path, say: Say, origin: Origin) -> Path:
    """Measures what this machine allows of a plan, case by case into CSV files, and returns the page.

    Raises LaunchError at the end where a case failed; starting again with the same folder measures those alone.
    """
    from headrace.studies.actorq.page import write_page

    make_folder(output)
    sheets = Sheets.open(output, origin)
    plan, notes = possible(plan)
    energy = Energy()
    if energy.why_not:
        notes.append(f"energy is not available on this machine: {energy.why_not}")
    for note in notes:
        say(note)
    failures: list[str] = []
    page = output / "actorq.html"
    try:
        _measure(plan, output, sheets, failures, say)
    finally:  # interrupted, too: the page shows how far it came
        comparisons = compare(
            sheets.throughput.of(case.name for case in plan.throughput),
            sheets.breakdown.of(case.name for case in plan.breakdown),
            sheets.training.of(case.name for case in plan.training),
            sheets.curves.of(case.name for case in plan.training),
        )
        write_csv(output / "comparisons.csv", [each._asdict() for each in comparisons], origin)
        write_page(page, plan, sheets, comparisons, [*notes, *failures], origin)
    if failures:
        raise LaunchError(f"{len(failures)} case{'s' if len(failures) > 1 else ''} failed; {page} has the rest")
    return page


def possible(plan: Plan) -> tuple[Plan, list[str]]:
    """The cases that can run here, and a note for those that can't."""
    if importlib.util.find_spec("dm_control") is not None:
        return plan, []
    kept: dict[str, Any] = {}
    left_out = 0
    for part in ("throughput", "breakdown", "pull_periods", "training"):
        cases = getattr(plan, part)
        kept[part] = tuple(case for case in cases if not is_dm_control(case.environment))
        left_out += len(cases) - len(kept[part])
    note = f'{left_out} cases of the control suite are left out: pip install "headrace[dm_control]"'
    return dataclasses.replace(plan, **kept), [note] if left_out else []


def _measure(plan: Plan, output: Path, sheets: Sheets, failures: list[str], say: Say) -> None:
    """Measures all that the sheets have not; what goes wrong is added to `failures`."""

    def measure(part: str, cases: tuple[C, ...], sheet: Sheet, rows_of: Callable[[C], Rows]) -> None:
        fill(part, cases, sheet, rows_of, _told, failures, say)

    measure("throughput", plan.throughput, sheets.throughput, lambda case: [measure_acting(case)])
    measure("breakdown", plan.breakdown, sheets.breakdown, lambda case: [measure_acting(case)])
    measure("crossover", plan.crossover, sheets.crossover, lambda case: [measure_crossover(case)])
    measure("pull period", plan.pull_periods, sheets.pull_periods, lambda case: [_train(case, output).run])
    measure("training", plan.training, sheets.training, lambda case: _train_and_keep(case, output, sheets))


def _train(case: TrainingCase, output: Path) -> Trained:
    return train_case(case, output / "runs" / case.name)


def _train_and_keep(case: TrainingCase, output: Path, sheets: Sheets) -> Rows:
    """The run's row; its curve is written before, so that a run that is in the one file is whole."""
    run, curve = _train(case, output)
    sheets.curves.put(case.name, curve)
    return [run]


_TOLD = {
    "steps_per_second": "{:,.0f} steps/s",
    "parameter_share": "{:.1%} on parameters",
    "refresh_ms": "installed {:.0f} ms after the publication",
    "fp32_us": "fp32 {:,.0f} µs",
    "int8_us": "int8 {:,.0f} µs",
    "seconds_to_reward": "target after {:,.0f} s",
    "final_return": "final score {:,.1f}",
}


def _told(row: Mapping[str, Any]) -> str:
    """The figures of a row that one looks for first."""
    return ", ".join(form.format(row[field]) for field, form in _TOLD.items() if row.get(field) is not None)
