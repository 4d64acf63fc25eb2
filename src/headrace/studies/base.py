"""The contract of every study."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, Protocol

__all__ = ["Scale", "Study"]

Scale = Literal["small", "full"]


class Study(Protocol):
    """One published comparison, measured again; a folder of `headrace.studies` with its published figures."""

    @property
    def name(self) -> str:
        """As the command line has it."""

    @property
    def summary(self) -> str:
        """What it compares, in one line."""

    def run(self, scale: Scale, output: Path, say: Callable[[str], None]) -> Path:
        """Measures, writes CSV files and a page into `output`, and returns the page; `say` takes lines of progress.

        "small" ends in a few minutes on two cores; "full" covers all that was published.
        """
