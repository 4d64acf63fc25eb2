"""`headrace study`: a published comparison, measured again on this machine."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated

import tyro

from headrace.cli.arguments import Positional, parse
from headrace.studies.base import Scale
from headrace.studies.catalogue import STUDIES, find_study

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    name: Annotated[Positional[str], tyro.conf.arg(metavar="NAME")]
    """Which study."""
    scale: Scale = "small"
    """small ends in a few minutes on two cores; full covers all that was published, and takes an hour or so."""
    output: Path | None = None
    """Directory for the CSV files and the page; study-NAME if not set."""


def run(arguments: Sequence[str]) -> int:
    """Runs a study; returns the exit code."""
    studies = "\n".join(f"  {study.name}: {study.summary}" for study in STUDIES)
    options = parse(
        _Options,
        arguments,
        prog="headrace study",
        description=f"Measure again what was published, on this machine, and show both side by side.\n\n{studies}",
    )
    study = find_study(options.name)
    signal.signal(signal.SIGTERM, _end)
    page = study.run(options.scale, options.output or Path(f"study-{study.name}"), lambda line: print(line, flush=True))
    print(f"wrote {page}")
    return 0


def _end(number: int, _frame: FrameType | None) -> None:
    """Lets what was started be ended, as Ctrl-C does."""
    raise SystemExit(128 + number)
