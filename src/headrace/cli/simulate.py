"""`headrace simulate`: predicts a run on machines of other sizes; calibrate measures what its work costs here."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headrace.cli.arguments import Environment, flag_of, parse, repeating
from headrace.cli.ending import FAILURES, repeatable
from headrace.cli.train import RunOptions, read_run_options
from headrace.errors import ConfigError, require
from headrace.launch.simulated import Simulated
from headrace.report.output import write_output
from headrace.report.run_paths import default_run_directory, require_output, require_output_folder
from headrace.settings import preset
from headrace.signals import held_back

__all__ = ["SimulateOptions", "run"]

_PROG = "headrace simulate"
_SECONDS = 20.0
_CORES = "--cores"


@dataclass(frozen=True)
class SimulateOptions(RunOptions):
    """The settings of the simulated runs, and a directory for them."""

    output: Path | None = None
    """Directory of the runs, the CSV files and the page; runs/simulate-ENV-ALGORITHM-TIME if not set."""


@dataclass(frozen=True)
class _Calibration:
    environment: Environment = "LunarLander-v3"
    """Environment whose costs are measured, with the algorithm of its preset."""
    seconds: float = 20.0
    """Processor time of a worker's turns; the whole takes three times as long."""
    output: Path = Path("costs.json")
    """File for the costs."""


def run(arguments: Sequence[str]) -> int:
    """Simulates runs, or calibrates; returns the exit code."""
    words = list(arguments)
    if words[:1] == ["calibrate"]:
        return _calibrate(words[1:])
    cores, rest = _take_cores(words)
    given = repeating(rest, "output")
    described = (
        "Simulate a run on each number of cores and print its speed, staleness, busy cores and bottleneck; "
        f"{_CORES} is required and takes several numbers. Without a stopping rule it stops after {_SECONDS:.0f} "
        "simulated seconds. "
        "`headrace simulate calibrate ENV` measures the costs on this machine."
    )
    if any(flag_of(word) == "--launcher" for word in rest):
        raise ConfigError("--launcher must be left out: the runs are simulated")
    if not any(flag_of(word) in ("--steps", "--time-limit", "--until-score") for word in rest):
        rest += ["--time-limit", f"{_SECONDS:.0f}"]
    options = read_run_options(SimulateOptions, [*rest, "--launcher", "simulated"], _PROG, described)
    config = options.to_config()
    assert isinstance(config.launcher, Simulated)
    config.launcher.read_files()  # so that a mistake leaves no directory
    path = options.output or default_run_directory(
        f"simulate-{config.environment}", config.algorithm.name, datetime.now()
    )
    require_output_folder(path)
    if (path / "capacity.csv").exists() or any(path.glob("cores-*")):
        raise ConfigError(f"{path} has an earlier prediction; another --output is required")
    with held_back():
        from headrace.simulation.capacity import predict, write_tables
        from headrace.simulation.page import present, row
    predictions = []
    try:
        for prediction in predict(config, cores, path, (lambda text: None) if options.quiet else print):
            predictions.append(prediction)
    except FAILURES as error:
        failed = str(cores[len(predictions)])
        raise repeatable(error, [*_PROG.split(), *given, _CORES, failed]) from error
    finally:  # also of the sizes before an error or an interrupt
        if predictions:
            write_tables(predictions, path)
            command = shlex.join(["headrace", "simulate", *words])
            title = f"{config.environment} · {config.algorithm.name} · {config.topology.name}, simulated"
            write_output(path / "index.html", present(title, command, predictions))
    table = Table(
        "cores", "steps/s", "updates/s", "staleness", "cores busy", "bottleneck", "return", "ended by", box=None
    )
    for each in predictions:
        table.add_row(*row(each))
    Console(highlight=False).print(table)
    print(f"saved in {path}: capacity.csv, scores.csv, index.html")
    return 0


def _calibrate(words: Sequence[str]) -> int:
    options = parse(
        _Calibration, words, prog=f"{_PROG} calibrate", default=_Calibration(), description="Measure costs of work."
    )
    require("seconds", options.seconds, 0 < options.seconds < 1e6, "above 0")
    require_output("output", options.output, ".json")
    with held_back():
        from headrace.simulation.calibration import calibrate, write_costs
    costs = calibrate(options.environment, preset(options.environment).algorithm, options.seconds)
    write_costs(costs, options.output)
    link = costs["calibration"]["link"]
    print(f"wrote {options.output}; use it with --costs {shlex.quote(str(options.output))} --link {link}")
    return 0


def _take_cores(words: Sequence[str]) -> tuple[list[int], list[str]]:
    """The numbers after --cores, and the other words; raises ConfigError."""
    places = [place for place, word in enumerate(words) if flag_of(word) == _CORES]
    if not places:
        return ([2] if {"-h", "--help"} & set(words) else _refuse("missing")), list(words)
    if len(places) > 1:
        _refuse("given twice")
    words = [*words[: places[0]], *words[places[0]].split("=", 1), *words[places[0] + 1 :]]
    begin = end = places[0] + 1
    while end < len(words) and re.match(r"-?\d", words[end]):
        end += 1
    numbers = words[begin:end]
    cores = [int(word) if word.isdecimal() else 0 for word in numbers]
    if not cores or min(cores) < 1:
        following = [word or "''" for word in words[begin : begin + 1] if not word.startswith("-")]
        _refuse(" ".join(numbers or following) or "without a number")
    return sorted(set(cores)), [*words[: begin - 1], *words[end:]]


def _refuse(value: str) -> list[int]:
    raise ConfigError(f"cores is {value}; whole numbers above 0 are required, such as {_CORES} 2 8 32")
