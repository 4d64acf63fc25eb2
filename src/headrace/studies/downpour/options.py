"""The settings that only this study has."""

import difflib
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import tyro

from headrace.errors import ConfigError, require
from headrace.studies.base import Scale

__all__ = ["PARTS", "DownpourOptions", "Part"]

Part = Literal["timing", "scaling", "reward", "staleness"]
PARTS: tuple[Part, ...] = get_args(Part)
_SMALL_SEEDS, _FULL_SEEDS = 1, 3


@dataclass(frozen=True)
class DownpourOptions:
    """What is measured, and how often it is trained; raises ConfigError for a part that there is not."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = ()
    """Parts of the study to measure; all if none is given."""
    seeds: int | None = None
    """Runs of each training case; if not given, 1 at small scale, 3 at full."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                close = difflib.get_close_matches(part, PARTS, n=1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(PARTS)}"
                raise ConfigError(f"parts has {part}, which is none of the study's; {hint}")
        if self.seeds is not None:
            require("seeds", self.seeds, self.seeds > 0, "above 0")

    def chosen_parts(self) -> tuple[Part, ...]:
        """The parts asked for, in the study's order, or all."""
        return tuple(part for part in PARTS if not self.parts or part in self.parts)

    def chosen_seeds(self, scale: Scale) -> int:
        """The seeds asked for, or those of the scale."""
        return self.seeds or (_SMALL_SEEDS if scale == "small" else _FULL_SEEDS)

    def words(self) -> list[str]:
        """The options as they were given, for the command that each figure has beside it."""
        parts = ["--parts", *self.parts] if self.parts else []
        return parts + (["--seeds", str(self.seeds)] if self.seeds else [])
