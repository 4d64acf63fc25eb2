"""Measuring what a sheet has not yet, case by case."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.studies.sheet import Sheet

__all__ = ["Case", "Rows", "Say", "fill"]

Say = Callable[[str], None]
Rows = Iterable[Mapping[str, Any]]


class Case(Protocol):
    """One measurement; its text is what a reader is told of it."""

    @property
    def name(self) -> str:
        """The same for the same settings."""


C = TypeVar("C", bound=Case)


def fill(
    part: str,
    cases: tuple[C, ...],
    sheet: Sheet,
    measure: Callable[[C], Rows],
    told: Callable[[Mapping[str, Any]], str],
    failures: list[str],
    say: Say,
) -> None:
    """Measures what a sheet lacks; what goes wrong is added to `failures`. `told` is of a case's first row."""
    missing = [case for case in cases if not sheet.has(case.name)]
    if len(missing) < len(cases):
        say(f"{part}: {len(cases) - len(missing)} of {len(cases)} cases are measured already, and kept")
    for number, case in enumerate(missing, 1):
        head = f"{part} {number}/{len(missing)} {case}"
        try:
            rows = list(measure(case))
        except HeadraceError as error:
            failures.append(f"{part}, {case}: failed: {error}")
            say(f"{head}: failed: {error}")
            continue
        sheet.put(case.name, rows)  # at once, for what is measured to outlive an interruption
        say(f"{head}: {told(rows[0])}")
