"""`headrace export`: a policy as an ONNX file; a run's is checked against the network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from headrace.cli.arguments import Positional, Run, parse
from headrace.report import RunDirectory
from headrace.report.output import write_output
from headrace.report.run_paths import require_output
from headrace.zoo import find_kept, zoo_name

__all__ = ["run"]


@dataclass(frozen=True)
class _Options:
    run: Run
    """Run directory, or zoo:NAME for a policy that comes with Headrace."""
    output: Annotated[Positional[Path], tyro.conf.arg(metavar="FILE")]
    """File to write; it ends in .onnx."""


def run(arguments: Sequence[str]) -> int:
    """Exports; returns the exit code."""
    options = parse(_Options, arguments, prog="headrace export", description="Write a policy as an ONNX file.")
    name = zoo_name(options.run)
    if name is not None:
        kept = find_kept(name)
        require_output("file", options.output, ".onnx")
        write_output(options.output, kept.path.read_bytes())
        print(f"wrote {options.output}, the policy zoo:{name}")
        return 0
    directory = RunDirectory.open(options.run)
    from headrace import training

    difference = training.export(directory, options.output)
    print(f"wrote {options.output}; its outputs differ from the network's by at most {difference:.1e}")
    return 0
