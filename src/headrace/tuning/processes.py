"""Trials as processes of this machine, several at a time."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.errors import StorageError
from headrace.fields import read_fields, write_json
from headrace.launch.guard import Guard
from headrace.launch.processes import child_environment, signal_name
from headrace.signals import held_back
from headrace.tuning.study import Study
from headrace.tuning.trial import Outcome, TrialStart

__all__ = ["run_in_processes"]

_READ_BYTES = 1 << 16


def run_in_processes(study: Study, trials: int, parallel: int) -> None:
    """Runs trials until the study has this many, `parallel` at a time, each on its share of the cores.

    An exception, such as KeyboardInterrupt, asks the trials to save and end; a second KeyboardInterrupt kills them.
    """
    free = _shares(parallel)
    with Guard("the tuning process"), selectors.DefaultSelector() as selector:
        try:
            while True:
                while free and study.trials < trials:
                    with held_back():  # a trial that has begun is watched
                        trial = study.start()
                        if trial is not None:
                            process = _Process(TrialStart(trial, free.pop()))
                            selector.register(process.output, selectors.EVENT_READ, process)
                if not selector.get_map():
                    return
                free += [process.start.cores for process in _wait(study, selector)]
        finally:
            _end(study, selector)


class _Process:
    """The process of a trial. Its errors, and what its environment prints, go to a log next to its run directory."""

    def __init__(self, start: TrialStart) -> None:
        self.start = start
        self.outcome: Outcome | None = None
        self._asked = False  # to end
        self._unread = b""
        self._log = start.trial.path.with_suffix(".log")
        try:
            with self._log.open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "headrace.tuning.trial"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=child_environment(),
                    start_new_session=True,  # only the study gets Ctrl-C
                )
        except OSError as error:
            raise StorageError(f"can't write {self._log}: {error.strerror}") from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.output = self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # it has died, which read() finds
            self._process.stdin.write(write_json(start).encode())
            self._process.stdin.close()

    def read(self) -> Iterator[Mapping[str, Any]]:
        """The evaluations that have arrived; sets `outcome` when the trial has ended."""
        data = os.read(self.output.fileno(), _READ_BYTES)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for record in map(json.loads, lines):
            if record.pop("kind") == "outcome":
                self.outcome = read_fields(Outcome, record)  # what its environment forked may keep the pipe open
            else:
                yield record
        if not data and self.outcome is None:
            status = self._process.wait()
            self.outcome = Outcome(interrupted=self._asked, error="" if self._asked else self._last_line(status))

    def close(self) -> None:
        """Closes the pipe, and waits for the process, which is leaving."""
        self.output.close()
        self._process.wait()

    def interrupt(self) -> None:
        """Asks the run to save and end."""
        if not self._asked:
            self._asked = True
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the process at once; its watcher ends what it has started."""
        self._process.kill()

    def _last_line(self, status: int) -> str:
        if status < 0:  # the last line is what the environment printed last
            return f"its process was ended by {signal_name(-status)}"
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"its process ended with status {status}"


def _wait(study: Study, selector: selectors.BaseSelector) -> list[_Process]:
    """Waits for the next reports of trials and gives them to the study; returns the processes that have ended."""
    ended = []
    for key, _ in selector.select():
        process: _Process = key.data
        number = process.start.trial.number
        try:
            for record in list(process.read()):
                if study.report(number, record):
                    process.interrupt()
        finally:
            if process.outcome is not None:
                with contextlib.closing(process), held_back():  # a trial that has ended is not run again
                    selector.unregister(process.output)
                    ended.append(process)
                    study.end(number, process.outcome)
    return ended


def _end(study: Study, selector: selectors.BaseSelector) -> None:
    """Ends the trials that still run, also where their outcomes can't be written; raises StorageError after that."""
    processes: list[_Process] = [key.data for key in selector.get_map().values()]
    for process in processes:
        process.interrupt()
    failures: list[StorageError] = []

    def wait_for_all() -> None:
        while selector.get_map():
            try:
                _wait(study, selector)
            except StorageError as error:
                failures.append(error)

    try:
        wait_for_all()
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
        wait_for_all()
    if failures:
        raise failures[0]


def _shares(parallel: int) -> list[tuple[int, ...]]:
    """The cores of each of the trials that run at a time, equally many; no limit if there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // parallel
    return [tuple(cores[place * each : (place + 1) * each]) for place in range(parallel)]
