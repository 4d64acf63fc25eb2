"""The contract of a study: options, parts, plan, comparisons, page."""

import dataclasses
import difflib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from headrace.errors import ConfigError, require
from headrace.fields import write_fields
from headrace.studies.sheet import Row, Rows, Sheet, fingerprint

__all__ = [
    "Case", "Measured", "Options", "Part", "Plan", "Results", "Say", "Scale", "Study", "hint", "leave_out",
]  # fmt: skip

Scale = Literal["small", "full"]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """One measurement; str() describes it to a reader."""

    prefix: ClassVar[str]
    """Its names begin with it."""

    def settings(self) -> object:
        """What decides the measurement, as JSON: the fields, of which algorithms and topologies are written by name."""
        return write_fields(self)

    @property
    def name(self) -> str:
        """A name that is equal for equal settings."""
        return fingerprint(self.prefix, self.settings())


Plan = Mapping[str, tuple[Any, ...]]
"""The cases of each part, in the order in which they are measured."""


class Measured(NamedTuple):
    """The result of a case: its row, and rows for the details file of its part, such as a learning curve."""

    row: Row
    details: Rows = ()


@dataclass(frozen=True)
class Part:
    """One CSV file of a study."""

    name: str
    columns: tuple[str, ...]
    measure: Callable[[Any, Path], Measured] | None = None
    """Measures a case, with a separate folder for its files. None if other parts or prepare() write the rows."""
    details: str = ""
    """Name of the part that stores the details."""
    simulated: bool = False
    """Whether no figure of it depends on the machine, or on what else it does. As many cases are then measured at a
    time as there are cores, by other processes: `measure` must be a function of a module."""


@dataclass(frozen=True)
class Options:
    """The options of one study; each field becomes a flag. Raises ConfigError for unknown words and numbers below 1."""

    known: ClassVar[Mapping[str, Collection[str]]] = {}
    """The words that a field accepts."""
    defaults: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {}
    """The default of each field at each scale."""

    def __post_init__(self) -> None:
        for name, words in self.known.items():
            for word in getattr(self, name):
                if word not in words:
                    raise ConfigError(f"{name} has {word}, which the study does not know; {hint(word, words)}")
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            for number in given if isinstance(given, tuple) else (given,):
                if isinstance(number, int) and not isinstance(number, bool):
                    require(field.name, number, number > 0, "above 0")

    def chosen(self, field: str, scale: Scale) -> Any:
        """The given value, each word once, or the default of the scale; None if the study has no such field."""
        given = getattr(self, field, None)
        asked = tuple(dict.fromkeys(given)) if isinstance(given, tuple) else given
        return asked or self.defaults.get(scale, {}).get(field)

    def words(self) -> list[str]:
        """The given options as command-line arguments, which every row records."""
        words = []
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if given:
                values = () if given is True else given if isinstance(given, tuple) else (given,)
                words += [f"--{field.name}", *map(str, values)]
        return words


@dataclass(frozen=True)
class Results:
    """The input of a page."""

    scale: Scale
    plan: Plan
    rows: Mapping[str, Rows]
    """The rows of each part."""
    comparisons: Sequence[Any]


class Study(ABC):
    """One published comparison and its reproduction; a folder of `headrace.studies` with the published figures."""

    name: str
    """Its name on the command line."""
    summary: str
    """What it compares, in one line."""
    options: type[Options] = Options
    parts: tuple[Part, ...]
    """The parts, in the order of measurement."""
    told: ClassVar[Mapping[str, str]] = {}
    """The columns that are printed as soon as a row is measured, each with its format."""

    @abstractmethod
    def plan(self, scale: Scale, options: Any) -> Plan:
        """The cases of every part. "small" takes a few minutes on two cores; "full" covers everything published."""

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """The cases that can be measured on this machine, and a note for each reason to leave others out."""
        del sheets, output, say
        return plan, []

    @abstractmethod
    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Any]:
        """Compares the rows with published and required figures: a NamedTuple for each row of comparisons.csv."""

    def page(self, results: Results) -> tuple[str, Mapping[str, str]]:
        """The text of the page, page.md, and its blocks and words, from page.py; see write_page()."""
        folder = type(self).__module__.rpartition(".")[0]
        module = importlib.import_module(".page", folder)  # now, because plots take long to import
        text = (files(folder) / "page.md").read_text(encoding="utf-8")
        return text, {"scale": results.scale, **module.blocks(results)}


def leave_out(plan: Plan, what: str, reason: str, concerns: Callable[[Any], bool]) -> tuple[Plan, list[str]]:
    """The plan without the cases that a reason concerns, and a note; the whole plan if the reason is empty."""
    if not reason:
        return plan, []
    kept = {part: tuple(case for case in cases if not concerns(case)) for part, cases in plan.items()}
    count = sum(map(len, plan.values())) - sum(map(len, kept.values()))
    return kept, [f"{count} {what} are left out: {reason}"] if count else []


def hint(word: str, known: Collection[str]) -> str:
    """A suggestion for an unknown word: the closest known one, or all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"it must be one of {', '.join(known)}"
