"""The settings that only this study has."""

import difflib
from dataclasses import dataclass
from typing import Annotated

import tyro

from headrace.errors import ConfigError, require
from headrace.machine import available_cores
from headrace.studies.base import Scale
from headrace.studies.concurrency.cases import PARTS, Part

__all__ = ["ALGORITHMS", "TOPOLOGIES", "ConcurrencyOptions"]

ALGORITHMS = ("dqn", "a3c", "dyna-q")
TOPOLOGIES = ("lock", "hogwild", "parameter-server", "ad-psgd")

_SMALL_PARTS: tuple[Part, ...] = ("runs", "throughput")
_SMALL_WORKERS = (1, 2, 4)
_FULL_WORKERS = (1, 2, 4, 8)
_MANY_WORKERS = (16, 32)
"""Only where there are as many cores."""
_SMALL_SEEDS, _FULL_SEEDS = 1, 3


@dataclass(frozen=True)
class ConcurrencyOptions:
    """What is run, and how often; raises ConfigError for what there is not."""

    parts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PART ...")] = ()
    """Of runs, throughput, ablation and faults; if none is given, the first two at small scale, all at full."""
    algorithms: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Of dqn, a3c and dyna-q; if none is given, dqn at small scale, all at full."""
    topologies: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Of lock, hogwild, parameter-server and ad-psgd; if none is given, hogwild at small scale, all at full."""
    workers: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...")] = ()
    """Counts of workers; if none is given, 1 2 4 at small scale; at full 8 too, and 16 32 where there are the cores."""
    seeds: int | None = None
    """Runs of each case; if not given, 1 at small scale, 3 at full."""

    def __post_init__(self) -> None:
        _require_known("parts", self.parts, PARTS)
        _require_known("algorithms", self.algorithms, ALGORITHMS)
        _require_known("topologies", self.topologies, TOPOLOGIES)
        for count in self.workers:
            require("workers", count, count > 0, "above 0")
        if self.seeds is not None:
            require("seeds", self.seeds, self.seeds > 0, "above 0")

    def chosen_parts(self, scale: Scale) -> tuple[Part, ...]:
        """The parts asked for, in the study's order, or those of the scale."""
        asked = self.parts or (_SMALL_PARTS if scale == "small" else PARTS)
        return tuple(part for part in PARTS if part in asked)

    def chosen_algorithms(self, scale: Scale) -> tuple[str, ...]:
        """The algorithms asked for, each once, or those of the scale."""
        return tuple(dict.fromkeys(self.algorithms)) or (ALGORITHMS[:1] if scale == "small" else ALGORITHMS)

    def chosen_topologies(self, scale: Scale) -> tuple[str, ...]:
        """The topologies asked for, each once, or those of the scale."""
        return tuple(dict.fromkeys(self.topologies)) or (("hogwild",) if scale == "small" else TOPOLOGIES)

    def chosen_workers(self, scale: Scale) -> tuple[int, ...]:
        """The counts asked for, from few to many, or those of the scale that this machine has the cores for."""
        if self.workers:
            return tuple(sorted(set(self.workers)))
        if scale == "small":
            return _SMALL_WORKERS
        return _FULL_WORKERS + tuple(count for count in _MANY_WORKERS if count <= available_cores())

    def chosen_seeds(self, scale: Scale) -> int:
        """The seeds asked for, or those of the scale."""
        return self.seeds or (_SMALL_SEEDS if scale == "small" else _FULL_SEEDS)

    def words(self) -> list[str]:
        """The options as they were given, for the command that each figure has beside it."""
        words = []
        for name in ("parts", "algorithms", "topologies", "workers"):
            given = getattr(self, name)
            words += [f"--{name}", *map(str, given)] if given else []
        return words + (["--seeds", str(self.seeds)] if self.seeds else [])


def _require_known(field: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            raise ConfigError(f"{field} has {name}, which is none of the study's; {hint}")
