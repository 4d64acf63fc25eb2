"""`headrace tune`: finds good settings with Optuna, by training runs."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from headrace.cli.arguments import Assignments, flag_of, given_flags
from headrace.cli.train import RunOptions, read_run_options
from headrace.errors import ConfigError, require
from headrace.signals import held_back

__all__ = ["TuneOptions", "run"]

_PROG = "headrace tune"
_PIPE_COLUMNS = 200  # if the output is not a terminal


@dataclass(frozen=True)
class TuneOptions(RunOptions):
    """The settings that all trials share, those that the study chooses, and the study's own."""

    tune: Assignments = ()
    """A setting of the run, its algorithm or its topology, by the name of its flag, and its values: log:LOW:HIGH,
    uniform:LOW:HIGH, int:LOW:HIGH or choice:A,B,... May be given several times."""
    trials: int = 20
    """Trials of the study after which it stops, including those of an earlier start."""
    parallel: int = 1
    """Trials that run at the same time."""
    study_dir: Path | None = None
    """Study directory; runs/tune-ENV-ALGORITHM-TIME if not set. The same command continues an existing study."""


def run(arguments: Sequence[str]) -> int:
    """Runs a study and prints its trials; returns the exit code, 130 after an interrupt."""
    options = read_run_options(TuneOptions, arguments, _PROG, "Find good settings by a study of training runs.")
    tuned_settings = _by_name(options.tune)
    given = given_flags(arguments)
    for name in tuned_settings:
        flag = flag_of(f"--{name}")
        if flag in given:
            raise ConfigError(f"tune {name} and {flag} are given; leave one of them out")
    with held_back():
        from headrace.tuning import results
        from headrace.tuning.run import tune
    tuned = tune(
        options.to_config(),
        tuned_settings,
        trials=options.trials,
        parallel=options.parallel,
        path=options.study_dir,
        quiet=options.quiet,
    )
    console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS, highlight=False)
    console.print(results.trial_table(tuned.trials, tuned.spaces))
    print(f"saved in {tuned.path}: {results.CSV_NAME}, {results.PAGE_NAME}")
    if tuned.best is not None:
        print(f"best: headrace evaluate {shlex.quote(str(tuned.best.path))}")
    if tuned.interrupted:
        print(f"interrupted; the same command with --study-dir {shlex.quote(str(tuned.path))} continues")
        return 130
    return 0 if tuned.best is not None else 1


def _by_name(tune: Sequence[str]) -> dict[str, str]:
    """Names and values of the settings; raises ConfigError."""
    found: dict[str, str] = {}
    for each in tune:
        name, equals, values = each.partition("=")
        require("tune", each, bool(name and equals), "NAME=VALUES, such as learning-rate=log:1e-4:1e-2")
        if name in found:
            raise ConfigError(f"tune {name} is given twice; leave one out")
        found[name] = values
    return found
