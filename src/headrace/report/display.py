"""Shows a run's progress: a live board on terminals, plain lines everywhere else."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TextIO

from headrace.report.formats import count, counted, duration, number, score_text
from headrace.report.progress import Progress
from headrace.settings import RunConfig

__all__ = ["Display", "Heading", "PlainDisplay", "QuietDisplay", "draws_live", "open_display", "say"]


_PERIOD_SECONDS = 10.0
_SILENCE_SECONDS = 60.0


class Heading(NamedTuple):
    """The settings that a display shows."""

    environment: str
    algorithm: str
    topology: str
    run_directory: str

    @staticmethod
    def of(config: RunConfig, path: Path) -> "Heading":
        """That of a run in this directory."""
        return Heading(config.environment, config.algorithm.name, config.topology.name, str(path))


class Display:
    """Shows a run; the defaults show nothing.

    One thread at a time may call it; update() never blocks for long on the terminal's reader.
    """

    def update(self, progress: Progress) -> None:
        """Shows a newer snapshot."""

    def message(self, text: str) -> None:
        """Shows a permanent line: an actor's death, a checkpoint, the reason for stopping."""

    def close(self) -> None:
        """Restores the terminal; a second call has no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class QuietDisplay(Display):
    """Shows nothing."""


class PlainDisplay(Display):
    """Prints a line of plain text every 10 s of the training clock, and one for the last snapshot.

    While the training clock is paused by a long evaluation, it prints one every minute.
    """

    def __init__(self, heading: Heading, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._due_seconds = float("-inf")
        self._silent_until = 0.0
        self._unshown: Progress | None = None
        self.message(" ".join(heading[:3]) + f" in {heading.run_directory}")

    def update(self, progress: Progress) -> None:
        """Prints the snapshot if it is due."""
        now = self._clock()
        due = progress.seconds >= self._due_seconds or now >= self._silent_until
        if progress.environment_steps == 0 or not due:
            self._unshown = progress
            return
        self._due_seconds, self._silent_until = progress.seconds + _PERIOD_SECONDS, now + _SILENCE_SECONDS
        self._unshown = None
        self.message(line(progress))

    def message(self, text: str) -> None:
        """Prints the text."""
        say(text, self._stream)

    def close(self) -> None:
        """Prints the last snapshot if it was not printed yet."""
        if self._unshown is not None:
            self.message(line(self._unshown))
            self._unshown = None


def open_display(heading: Heading, *, quiet: bool = False, stream: TextIO | None = None) -> Display:
    """Returns a display for the stream (default: standard output): live on a terminal, else plain lines.

    Without a standard output, such as in a program without a console, nothing is shown.
    """
    out: TextIO | None = stream or sys.stdout
    if quiet or out is None or getattr(out, "closed", False):
        return QuietDisplay()
    if draws_live(out):
        from rich.console import Console

        from headrace.report.live import LiveDisplay

        return LiveDisplay(heading, Console(file=out))
    return PlainDisplay(heading, out)


def draws_live(stream: TextIO) -> bool:
    """Whether a stream is a terminal that can redraw its contents; one that only writes and flushes is none."""
    utf8 = (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return utf8 and stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def line(progress: Progress) -> str:
    """The snapshot in one line of ASCII."""
    p = progress
    parts = [
        f"[{duration(p.seconds)}]",
        f"{count(p.environment_steps)} steps" + (f" of {count(p.steps_target)}" if p.steps_target else ""),
        counted(p.episodes, "episode"),
        f"return {_ascii(p.mean_return, score_text)}",
        f"evaluated {_ascii(p.evaluation_return, score_text)}",
        f"{count(p.steps_per_second)} steps/s",
        f"{count(p.learner_steps_per_second)} updates/s",
        f"{_ascii(p.samples_per_insert, number)} samples/insert",
        f"staleness {_ascii(p.staleness, number)}",
    ]
    if p.bottleneck:
        parts.append(f"bottleneck {p.bottleneck}")
    if p.actors_alive < p.actors_total:
        parts.append(f"{p.actors_alive} of {p.actors_total} {p.role}s alive")
    if p.paused:
        parts.append("evaluating")
    return parts[0] + " " + ", ".join(parts[1:])


def _ascii(value: float | None, shown: Callable[[float], str]) -> str:
    return "-" if value is None else shown(value)


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line; a closed pipe (as with `head`) or terminal, or another encoding, does not end the caller."""
    with contextlib.suppress(OSError):
        try:
            print(text, file=stream, flush=True)
        except UnicodeEncodeError:
            print(text.encode("ascii", "replace").decode(), file=stream, flush=True)
