"""The contract of every study."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

__all__ = ["NoOptions", "Scale", "Study"]

Scale = Literal["small", "full"]


@dataclass(frozen=True)
class NoOptions:
    """Settings of a study that has none of its own."""


class Study(Protocol):
    """One published comparison, measured again; a folder of `headrace.studies` with its published figures."""

    @property
    def name(self) -> str:
        """As the command line has it."""

    @property
    def summary(self) -> str:
        """What it compares, in one line."""

    @property
    def options(self) -> type[Any]:
        """A frozen dataclass of the settings that only this study has, with defaults; each becomes a flag."""

    def run(self, scale: Scale, output: Path, options: Any, say: Callable[[str], None]) -> Path:
        """Measures, writes CSV files and a page into `output`, and returns the page; `say` takes lines of progress.

        "small" ends in a few minutes on two cores; "full" covers all that was published. `options` is of the study's
        own type.
        """
