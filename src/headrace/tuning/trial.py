"""One trial: a training run that reports its evaluations. As a program, in a process of the study's.

Its settings come on stdin as JSON; evaluations and the outcome are lines of JSON on its standard output.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, EnvironmentFault, HeadraceError, error_line
from headrace.fields import read_json
from headrace.report import QuietDisplay, RunDirectory
from headrace.settings import RunConfig

__all__ = ["Outcome", "Stopped", "Trial", "TrialStart", "run_trial"]

Report = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Trial:
    """A trial that is to run: its number in the study, settings and run directory."""

    number: int
    config: RunConfig
    path: Path


@dataclass(frozen=True)
class TrialStart:
    """What the process of a trial gets."""

    trial: Trial
    cores: tuple[int, ...] = ()
    """Cores that it may use; all if there are none."""


@dataclass(frozen=True)
class Outcome:
    """How a trial ended."""

    score: float | None = None
    """Mean return of the last evaluation."""
    environment_steps: int = 0
    seconds: float = 0.0
    """Training time."""
    interrupted: bool = False
    error: str = ""
    """Why it failed; empty if it did not."""
    mistake: bool = False
    """Whether the error may be that of all trials: a user's mistake, or a process of the cluster that died."""


class Stopped(HeadraceError):
    """Raised by `report`: the run saves what it has learned, and ends."""


class _ReportingDirectory(RunDirectory):
    """A run directory that reports each record it is given."""

    report: Report

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds the record and reports it."""
        super().append(record)
        self.report(record)


def run_trial(trial: Trial, report: Report) -> Outcome:
    """Trains, with a call of `report` for each record of metrics.jsonl; what the run raises is part of the outcome."""
    try:
        with _ReportingDirectory.create(trial.path, trial.config.to_json()) as directory:
            directory.report = report
            from headrace.training import train

            summary = train(trial.config, directory, QuietDisplay()).summary
    except Stopped:
        return Outcome(interrupted=True)
    except HeadraceError as error:
        return Outcome(error=str(error), mistake=isinstance(error, ConfigError | EnvironmentFault))
    except Exception as error:
        return Outcome(error=error_line(error))
    score, interrupted = summary["mean_return"], summary["stopped_by"] == "interrupt"
    done = {"environment_steps": summary["environment_steps"], "seconds": summary["wall_seconds"]}
    if not interrupted and (score is None or not math.isfinite(score)):
        why = f"its score is {score}; a finite number is required"
        return Outcome(**done, error=why, mistake=score is None)  # None: it was too short for an update
    return Outcome(score, **done, interrupted=interrupted)


def _main() -> None:
    """Runs the trial of this process; SIGINT ends it as it ends `headrace train`."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # an environment may print

    def say(record: Mapping[str, Any]) -> None:
        if record["kind"] in ("evaluation", "outcome"):
            print(json.dumps(record), file=answers, flush=True)

    start = read_json(TrialStart, sys.stdin.read(), "a trial's start")
    if start.cores:
        os.sched_setaffinity(0, start.cores)
    say({"kind": "outcome", **vars(run_trial(start.trial, say))})
    from headrace.launch.leaving import leave_soon

    leave_soon(0)


if __name__ == "__main__":
    _main()
