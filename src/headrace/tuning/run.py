"""Runs a study, on this machine or on a Ray cluster."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from headrace.errors import require
from headrace.fields import require_fit
from headrace.report import default_run_directory
from headrace.report.display import say
from headrace.settings import RunConfig
from headrace.tuning.processes import run_in_processes
from headrace.tuning.results import write_results
from headrace.tuning.space import Space, read_spaces
from headrace.tuning.study import Study, TrialRow

__all__ = ["MOST_TRIALS", "TuneResult", "tune"]

MOST_TRIALS = 100_000
_MOST_PARALLEL = 1_024


class TuneResult(NamedTuple):
    """A study and its trials so far."""

    path: Path
    """The study's directory."""
    spaces: list[Space]
    trials: list[TrialRow]
    """The trials that have ended, the best first."""
    interrupted: bool
    """Whether it was interrupted before it had all its trials."""

    @property
    def best(self) -> TrialRow | None:
        """The complete trial with the highest score."""
        return next((trial for trial in self.trials if trial.state == "complete"), None)


def tune(
    config: RunConfig,
    values: Mapping[str, str],
    *,
    trials: int,
    parallel: int,
    path: Path | None,
    quiet: bool,
) -> TuneResult:
    """Runs trials until the study at `path` has this many; an interrupt ends it, and the same call continues it.

    `config` has the settings that all trials share, and `values` says how others are chosen, by name. Raises
    HeadraceError: ConfigError before anything starts for settings that can't work.
    """
    require_fit("trials", trials, int)
    require_fit("parallel", parallel, int)
    require("trials", trials, 0 < trials <= MOST_TRIALS, f"between 1 and {MOST_TRIALS:,}")
    require("parallel", parallel, 0 < parallel <= _MOST_PARALLEL, f"between 1 and {_MOST_PARALLEL:,}")
    spaces = read_spaces(values, config)
    run = _runner(config)
    path = path or default_run_directory(f"tune-{config.environment}", config.algorithm.name, datetime.now())
    interrupted = False
    with Study(path, config, spaces, _silence if quiet else say, parallel=parallel) as study:
        try:
            run(study, trials, parallel)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            title = f"Tuning of {config.algorithm.name} in {config.environment}"
            write_results(study.rows(), spaces, path, title)
        return TuneResult(path, spaces, study.rows(), interrupted)


def _silence(line: str) -> None:
    """Shows nothing."""


def _runner(config: RunConfig) -> Callable[[Study, int, int], None]:
    if config.launcher.name == "processes":
        return run_in_processes
    require("launcher", config.launcher.name, config.launcher.name == "ray", "processes or ray for tuning")
    from headrace.tuning.ray import require_usable, run_in_ray  # an optional dependency, imported only if used

    require_usable(config)
    return run_in_ray
