"""Functions of a user that a run calls during training."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.errors import LaunchError, error_line, require

__all__ = ["Callback", "Callbacks"]

Callback = Callable[[dict[str, Any]], object]
"""Takes a record; one that returns True ends the run."""


@dataclasses.dataclass
class Callbacks:
    """Called in the training process's thread, in which training waits for them; each gets a dict of JSON's types.

    True ends the run as its other stopping rules do. An exception ends it with an error: the run is saved, and no
    callback is called after it; KeyboardInterrupt ends it at once, as a second Ctrl-C does. Raises ConfigError for one
    that can't be called. Implements `RecordSink`. One thread.
    """

    on_record: Callback | None = None
    """Takes each new record of metrics.jsonl, about one a second: its `kind` ("progress", "evaluation", "exit", ...;
    see docs/running.md), and its fields, for "progress" those of `headrace.report.progress.Progress`."""
    on_evaluation: Callback | None = None
    """Takes the records of kind "evaluation": environment_steps, learner_steps, seconds (training clock) and version of
    the policy, episodes, mean_return, std_return, min_return, max_return and mean_length."""
    on_checkpoint: Callback | None = None
    """Takes path (the checkpoint's directory, which the next checkpoint replaces), environment_steps, learner_steps and
    seconds of a checkpoint that is complete."""

    stopped: bool = dataclasses.field(default=False, init=False)
    """Whether one has returned True."""

    def __post_init__(self) -> None:
        for name in ("on_record", "on_evaluation", "on_checkpoint"):
            value = getattr(self, name)
            require(name, f"{value!r:.60}", value is None or callable(value), "a function of one dict, or none")

    def append(self, record: Mapping[str, Any]) -> None:
        """Calls on_record and, for an evaluation, on_evaluation."""
        self._call("on_record", record)
        if record["kind"] == "evaluation":
            self._call("on_evaluation", record)

    def checkpoint(self, record: Mapping[str, Any]) -> None:
        """Calls on_checkpoint."""
        self._call("on_checkpoint", record)

    def close(self) -> None:
        """There is nothing to release."""

    def _call(self, name: str, record: Mapping[str, Any]) -> None:
        """Raises LaunchError, which names the callback, for an exception."""
        callback: Callback | None = getattr(self, name)
        if callback is None:
            return
        try:
            result = callback(dict(record))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # such as those that end a program, or a test
            self.on_record = self.on_evaluation = self.on_checkpoint = None
            raise LaunchError(f"{name} raised {error_line(error)}; the run ends") from error
        self.stopped |= isinstance(result, bool | np.bool_) and bool(result)
