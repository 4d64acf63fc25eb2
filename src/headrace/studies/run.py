"""Runs any study: measures the cases that its files do not contain yet, and writes its page."""

import multiprocessing
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import ConfigError, HeadraceError, LaunchError
from headrace.machine import available_cores
from headrace.report.formats import counted
from headrace.report.run_paths import require_output_folder
from headrace.studies.base import Case, Measured, Part, Plan, Results, Say, Scale, Study
from headrace.studies.results import Origin, make_folder, write_csv
from headrace.studies.sheet import CASE, Row, Rows, Sheet, in_order, read_rows

__all__ = ["read_origin", "render_study", "run_plan", "run_study"]

T = TypeVar("T")
Result = TypeVar("Result")
PlanOf = Callable[[str], Plan]
"""The plan of a command that wrote rows earlier."""


def _nothing(command: str) -> Plan:
    del command
    return {}


def run_study(study: Study, scale: Scale, output: Path, options: Any, say: Say, plan_of: PlanOf = _nothing) -> Path:
    """Measures the cases that `output` does not contain yet; returns the page. `say` receives lines of progress.

    Raises LaunchError at the end if a case failed; a second run with the same folder measures only those cases.
    """
    words = ["headrace", "study", study.name, *options.words(), "--scale", scale, "--output", str(output)]
    plan, parts = study.plan(scale, options), options.chosen("parts", scale) or ()
    return run_plan(study, scale, plan, output, say, Origin.here(shlex.join(words)), parts, plan_of)


def run_plan(
    study: Study,
    scale: Scale,
    plan: Plan,
    output: Path,
    say: Say,
    origin: Origin,
    parts: Collection[str] = (),
    plan_of: PlanOf = _nothing,
) -> Path:
    """Measures these parts of a plan, or all if none is named, into CSV files; the page shows all parts.

    Of each part it shows the cases of the plan and those of the commands that wrote its rows, or, where none is
    measured, rows of the same scale whose settings have changed since. It says how many rows it does not show.
    """
    require_output_folder(output)
    make_folder(output)
    sheets = {part.name: Sheet(_file(output, part), origin, part.columns) for part in study.parts}
    wanted = {part: cases for part, cases in plan.items() if not parts or part in parts}
    for part in study.parts:
        if wanted.get(part.name) and not part.simulated:
            for name in filter(None, (part.name, part.details)):
                sheets[name].require_machine()
    possible, notes = study.prepare(wanted, sheets, output, say)
    for note in notes:
        say(note)
    failures: list[str] = []
    try:
        for part in study.parts:
            _fill(study, part, possible.get(part.name, ()), sheets, output, failures, say)
    finally:  # also after an interrupt: the page shows the rows so far
        rows, hidden = _shown(study, plan, {name: sheet.rows for name, sheet in sheets.items()}, scale, plan_of)
        results = Results(scale, plan, rows, study.compare(rows))
        write_csv(output / "comparisons.csv", [each._asdict() for each in results.comparisons], origin)
        notes += failures
        write_csv(output / "left_out.csv", [{"note": note} for note in notes], origin)
        page = _write_page(study, results, [*hidden, *notes], output, origin)
    if failures:
        them = "them" if len(failures) > 1 else "it"
        raise LaunchError(
            f"{counted(len(failures), 'case')} failed; {page} has the rest; to repeat {them}: {origin.command}"
        )
    return page


def read_origin(study: Study, folder: Path) -> Origin:
    """The origin of a folder's files, from the last time that one was written; ConfigError if it holds none."""
    rows: list[Mapping[str, str]] = []
    for name in ("comparisons", "left_out", *(part.name for part in study.parts)):
        path = folder / f"{name}.csv"
        if path.exists() and not rows:
            rows = [row for row in read_rows(path) if str(row["command"]).startswith(f"headrace study {study.name} ")]
    if not rows:
        raise ConfigError(f"{folder} holds no CSV file of study {study.name}; --render needs a folder that it wrote")
    return Origin.of(max(rows, key=lambda row: row["date"]))


def render_study(
    study: Study, scale: Scale, options: Any, folder: Path, origin: Origin, plan_of: PlanOf = _nothing
) -> Path:
    """Writes the page of a folder's files, as `run_plan` does, without measuring anything."""
    plan, found = study.plan(scale, options), {}
    for part in study.parts:
        path = _file(folder, part)
        found[part.name] = read_rows(path, part.columns) if path.exists() else []
    rows, notes = _shown(study, plan, found, scale, plan_of)
    left_out = folder / "left_out.csv"
    notes += [str(row["note"]) for row in read_rows(left_out)] if left_out.exists() else []
    return _write_page(study, Results(scale, plan, rows, study.compare(rows)), notes, folder, origin)


def _fill(
    study: Study,
    part: Part,
    cases: tuple[Case, ...],
    sheets: Mapping[str, Sheet],
    output: Path,
    failures: list[str],
    say: Say,
) -> None:
    """Measures the cases that a part's sheet lacks; failures are added to `failures`."""
    if part.measure is None:
        return
    sheet = sheets[part.name]
    missing = [case for case in cases if not sheet.has(case.name)]
    if len(missing) < len(cases):
        say(f"{part.name}: {len(cases) - len(missing)} of {len(cases)} cases are measured already, and kept")
    for number, (case, made) in enumerate(_measured(part, missing, output / "runs"), 1):
        head = f"{part.name} {number}/{len(missing)} {case}"
        if isinstance(made, HeadraceError):
            failures.append(f"{part.name}, {case}: failed: {made}")
            say(f"{head}: failed: {made}")
            continue
        row, details = made
        if details:  # before the row: a case with a row is complete
            sheets[part.details].put(case.name, details)
        sheet.put(case.name, [row])  # at once, so that it survives an interruption
        say(f"{head}: {_told(study.told, row)}")


def _measured(part: Part, cases: Sequence[Case], folder: Path) -> Iterator[tuple[Case, Measured | HeadraceError]]:
    """Measures each case; those of a simulated part at the same time, in the order in which they are completed."""
    assert part.measure is not None
    measure = partial(_measure, part.measure, folder)
    if not part.simulated:
        yield from map(measure, cases)
        return
    waiting = {case.name: case for case in cases}
    try:
        for case, made in _at_the_same_time(measure, cases):
            del waiting[case.name]
            yield case, made
    except BrokenProcessPool:
        for case in waiting.values():
            yield case, LaunchError("one of the processes that measure was killed; memory may have run out")


def _measure(
    measure: Callable[[Case, Path], Measured], folder: Path, case: Case
) -> tuple[Case, Measured | HeadraceError]:
    try:
        return case, measure(case, folder / case.name)
    except HeadraceError as error:
        return case, error


def _at_the_same_time(function: Callable[[T], Result], values: Iterable[T]) -> Iterator[Result]:
    """The results as they come, from as many processes as there are cores; Ctrl-C interrupts these too."""
    running: set[Future[Result]] = set()
    with ProcessPoolExecutor(available_cores(), multiprocessing.get_context("spawn")) as pool:
        for value in values:
            running.add(pool.submit(function, value))
            if len(running) == available_cores():  # the others are begun later, and not after an interrupt
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (each.result() for each in done)
        yield from (each.result() for each in as_completed(running))


def _told(forms: Mapping[str, str], row: Row) -> str:
    return ", ".join(form.format(row[field]) for field, form in forms.items() if row.get(field) is not None) or "done"


def _names(study: Study, plan: Plan, name: str) -> list[str]:
    """The names of a part's cases, or of the cases whose details it stores."""
    parts = [part.name for part in study.parts if name in (part.name, part.details)]
    return [case.name for part in parts for case in plan.get(part, ())]


def _shown(
    study: Study, plan: Plan, found: Mapping[str, Sequence[dict[str, Any]]], scale: Scale, plan_of: PlanOf
) -> tuple[dict[str, Rows], list[str]]:
    """The rows of each part that a page shows, and how many it does not: settings of one figure are not mixed.

    A row of another scale is shown next to those of this one if it is of a case that both scales have.
    """
    shown: dict[str, Rows] = {}
    notes = []
    for part, rows in found.items():
        of_scale = [row for row in rows if f" --scale {scale} " in row["command"]]
        commands = dict.fromkeys(
            re.sub(" --scale [a-z]+ ", f" --scale {scale} ", row["command"]) if of_scale else row["command"]
            for row in rows
        )
        names = list(
            dict.fromkeys(name for each in (plan, *map(plan_of, commands)) for name in _names(study, each, part))
        )
        planned = [row for row in rows if row[CASE] in names]
        shown[part] = in_order(planned or of_scale, names)
        if shown[part] and not planned:
            notes.append(f"{part}: measured with settings that have changed since")
        hidden = len(rows) - len(shown[part])
        if hidden:
            rows_hidden = counted(hidden, "row")
            notes.append(f"{part}: {rows_hidden} of another scale or machine, or whose settings have changed since")
    return shown, notes


def _file(folder: Path, part: Part) -> Path:
    return folder / f"{part.name}.csv"


def _write_page(study: Study, results: Results, notes: list[str], output: Path, origin: Origin) -> Path:
    from headrace.studies.page import write_page

    path = output / f"{study.name}.html"
    write_page(path, *study.page(results), [row for rows in results.rows.values() for row in rows], notes, origin)
    return path
