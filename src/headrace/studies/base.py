"""The frame of every study: its options, its parts, and what it makes of their rows."""

import dataclasses
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from headrace.errors import ConfigError, require
from headrace.studies.sheet import Row, Rows, Sheet

__all__ = [
    "Case",
    "Measured",
    "Options",
    "Page",
    "Part",
    "Plan",
    "Results",
    "Say",
    "Scale",
    "Study",
    "hint",
    "leave_out",
]

Scale = Literal["small", "full"]
Say = Callable[[str], None]


class Case(Protocol):
    """One measurement; its text is what a reader is told of it."""

    @property
    def name(self) -> str:
        """The same for the same settings."""


Plan = Mapping[str, tuple[Any, ...]]
"""The cases of each part, in the order in which they are measured."""


class Measured(NamedTuple):
    """What a case gave: a row, and rows for the file of details of its part, such as a learning curve."""

    row: Row
    details: Rows = ()


@dataclass(frozen=True)
class Part:
    """One CSV file of a study."""

    name: str
    columns: tuple[str, ...]
    measure: Callable[[Any, Path], Measured] | None = None
    """Measures a case; the folder is the case's own. None where the rows come from elsewhere, as details do."""
    details: str = ""
    """The part whose file takes the details."""
    later: Collection[str] = ()
    """Columns that files from before there were such columns may lack."""


@dataclass(frozen=True)
class Options:
    """The settings that only one study has; each field becomes a flag. Raises ConfigError for what there is not."""

    known: ClassVar[Mapping[str, Collection[str]]] = {}
    """The words that a field takes."""
    defaults: ClassVar[Mapping[Scale, Mapping[str, Any]]] = {}
    """The value of each field at each scale, where it is not given."""

    def __post_init__(self) -> None:
        for name, words in self.known.items():
            for word in getattr(self, name):
                if word not in words:
                    raise ConfigError(f"{name} has {word}, which is none of the study's; {hint(word, words)}")
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            for number in given if isinstance(given, tuple) else (given,):
                if isinstance(number, int):
                    require(field.name, number, number > 0, "above 0")

    def chosen(self, field: str, scale: Scale) -> Any:
        """What was asked for, each word once, or what the scale has; None of a field that there is not."""
        given = getattr(self, field, None)
        asked = tuple(dict.fromkeys(given)) if isinstance(given, tuple) else given
        return asked or self.defaults.get(scale, {}).get(field)

    def words(self) -> list[str]:
        """The options as they were given, for the command that each figure has beside it."""
        words = []
        for field in dataclasses.fields(self):
            given = getattr(self, field.name)
            if given:
                words += [f"--{field.name}", *map(str, given if isinstance(given, tuple) else (given,))]
        return words


@dataclass(frozen=True)
class Results:
    """What a page is made of."""

    scale: Scale
    plan: Plan
    rows: Mapping[str, Rows]
    """Those of each part."""
    comparisons: Sequence[Any]


class Page(NamedTuple):
    """A study's part of its page; bodies are HTML. An empty section is left out."""

    title: str
    tiles: str
    sections: Iterable[tuple[str, str]]
    method: Iterable[str]
    """Paragraphs of text on how it was measured."""


class Study(ABC):
    """One published comparison, measured again; a folder of `headrace.studies` with its published figures."""

    name: str
    """As the command line has it."""
    summary: str
    """What it compares, in one line."""
    options: type[Options] = Options
    parts: tuple[Part, ...]
    """In the order in which they are measured."""
    told: ClassVar[Mapping[str, str]]
    """The columns of a row that a reader is told of as soon as it is measured, each with its form."""

    @abstractmethod
    def plan(self, scale: Scale, options: Any) -> Plan:
        """The cases of every part. "small" ends in a few minutes on two cores; "full" covers all that was published."""

    def prepare(self, plan: Plan, sheets: Mapping[str, Sheet], output: Path, say: Say) -> tuple[Plan, list[str]]:
        """What of a plan can be measured here, and a note for each reason why something can't."""
        del sheets, output, say
        return plan, []

    @abstractmethod
    def compare(self, rows: Mapping[str, Rows]) -> Sequence[Any]:
        """The rows beside what was published and what is required, a NamedTuple for each row of comparisons.csv."""

    @abstractmethod
    def present(self, results: Results) -> Page:
        """The page."""


def leave_out(plan: Plan, what: str, reason: str, concerns: Callable[[Any], bool]) -> tuple[Plan, list[str]]:
    """A plan without the cases that a reason concerns, and a note; all of it where there is no reason."""
    if not reason:
        return plan, []
    kept = {part: tuple(case for case in cases if not concerns(case)) for part, cases in plan.items()}
    count = sum(map(len, plan.values())) - sum(map(len, kept.values()))
    return kept, [f"{count} {what} are left out: {reason}"] if count else []


def hint(word: str, known: Collection[str]) -> str:
    """What may have been meant by a word that is not known."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
