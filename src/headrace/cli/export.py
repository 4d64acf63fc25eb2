"""`headrace export`: a run's policy as an ONNX file, checked against the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import Positional, Run, parse
from headrace.report import RunDirectory

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    run: Run
    """Run directory."""
    output: Annotated[Positional[Path], tyro.conf.arg(metavar="FILE")]
    """File to write; it ends in .onnx."""


def run(arguments: Sequence[str]) -> int:
    """Exports; returns the exit code."""
    options = parse(_Options, arguments, prog="headrace export", description="Write a run's policy as an ONNX file.")
    directory = RunDirectory.open(options.run)
    from headrace import training

    difference = training.export(directory, options.output)
    print(f"wrote {options.output}; its outputs differ from the network's by at most {difference:.1e}")
    return 0
