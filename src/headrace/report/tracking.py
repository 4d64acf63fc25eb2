"""Sends a run's numbers to an experiment tracker."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, error_line
from headrace.report.events import scalars

__all__ = ["Tracker", "import_tracker"]

_PROJECT = "headrace"


def import_tracker(name: str) -> Any:
    """The tracker's package; raises ConfigError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f'track is {name}, which needs an extra: pip install "headrace[{name}]" ({error})') from None


class Tracker:
    """A run of Weights & Biases with the numbers that TensorBoard gets, against environment steps.

    The package's own settings apply, such as WANDB_MODE=offline; its files are in RUN/wandb. Raises ConfigError if it
    can't start a run. A later error of the package is printed to standard error once, and nothing more is sent.
    """

    def __init__(self, package: Any, directory: Path, config: Mapping[str, Any]) -> None:
        self._name = package.__name__
        self._failed = False
        try:
            self._run = package.init(
                project=_PROJECT,
                name=directory.resolve().name,
                dir=str(directory),
                config=dict(config),
                settings=package.Settings(console="off", silent=True),
            )
            self._run.define_metric("*", step_metric="environment_steps")
        except Exception as error:  # its own tree of errors
            raise ConfigError(f"track is {self._name}, which can't start a run: {error}") from error

    def append(self, record: Mapping[str, Any]) -> None:
        """Sends the record's numbers; a record without environment steps is left out."""
        if "environment_steps" in record and not self._failed:
            self._try(self._run.log, {"environment_steps": record["environment_steps"], **dict(scalars(record))})

    def close(self) -> None:
        """Ends the tracker's run; waits until everything is stored or sent."""
        self._try(self._run.finish)

    def _try(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception as error:
            if not self._failed:
                text = f"{self._name} failed, and gets no more records of this run: {error_line(error)}"
                with contextlib.suppress(OSError):
                    print(f"headrace: warning: {text}", file=sys.stderr, flush=True)
            self._failed = True
