"""The live board for terminals: drawn by rich without a thread, only when there is a new snapshot."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from headrace.report.display import Display, Heading
from headrace.report.formats import count, duration, number, score_text, size
from headrace.report.progress import ACTOR_TIMES, LEARNER_TIMES, Progress, style_times

__all__ = ["Board", "LiveDisplay", "sparkline"]

_LABEL_CELLS = 9
_WIDEST_CELLS = 110
_WIDEST_SPARKLINE = 40
_COLORS = ("blue", "yellow", "green", "cyan", "magenta", "red", "bright_black")
_SHADES = "█▓▒░╳╱·"  # one for each color, for terminals without colors
_SPARKS = "▁▂▃▄▅▆▇█"


class LiveDisplay(Display):
    """A board at the bottom of the terminal, redrawn by update(); messages scroll above it."""

    def __init__(self, heading: Heading, console: Console) -> None:
        self._heading = heading
        self._console = console
        self._evaluations: list[float] = []
        self._lowest = math.inf  # score so far: the start of its bar
        self._paused = False
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def update(self, progress: Progress) -> None:
        """Redraws the board."""
        self._collect(progress)
        with contextlib.suppress(OSError):
            self._live.update(Board(self._heading, progress, self._evaluations, self._lowest), refresh=True)

    def message(self, text: str) -> None:
        """Prints the text above the board as it is, so that a command in it can be copied."""
        with contextlib.suppress(OSError):  # as of a terminal that was closed
            self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def close(self) -> None:
        """Keeps the last board on the screen and restores the terminal."""
        with contextlib.suppress(OSError):
            self._live.stop()

    def _collect(self, progress: Progress) -> None:
        evaluated = progress.evaluation_return
        ended = self._paused and not progress.paused
        if evaluated is not None and (ended or self._evaluations[-1:] != [evaluated]):
            self._evaluations.append(evaluated)
        self._paused = progress.paused
        for score in (progress.mean_return, evaluated):
            self._lowest = self._lowest if score is None else min(self._lowest, score)


class Board:
    """One snapshot, as wide as the console."""

    def __init__(self, heading: Heading, progress: Progress, evaluations: Sequence[float], lowest: float) -> None:
        self._heading = heading
        self._progress = progress
        self._evaluations = evaluations
        self._lowest = lowest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draws the board in a frame; narrow consoles cut its lines."""
        width = min(options.max_width - 2, _WIDEST_CELLS)  # room for the terminal's "^C", which would wrap and scroll
        inner = width - 4
        shades = _SHADES if console.no_color else "━" * len(_COLORS)
        heading = self._heading
        title = Text.assemble((heading.environment, "bold"), f" · {heading.algorithm} · {heading.topology}")
        yield Panel(
            _Lines([*self._targets(inner), *self._figures(inner), *self._times(inner, shades)]),
            title=title,
            title_align="left",
            subtitle=Text(_keep_end(heading.run_directory, inner - 4), style="dim"),
            subtitle_align="left",
            border_style="bright_black",
            width=width,
        )

    def _targets(self, cells: int) -> Iterator[Text]:
        p = self._progress
        if p.steps_target:
            left = (p.steps_target - p.environment_steps) / p.steps_per_second if p.steps_per_second > 0 else None
            label = f"{count(p.environment_steps)} / {count(p.steps_target)}"
            yield _target("steps", p.environment_steps / p.steps_target, label, _left(left), cells)
        if p.time_target:
            label = f"{duration(p.seconds)} / {duration(p.time_target)}"
            yield _target("time", p.seconds / p.time_target, label, _left(p.time_target - p.seconds), cells)
        if p.score_target is not None:
            score = p.evaluation_return if p.evaluation_return is not None else p.mean_return
            if score is None:
                share = 0.0
            elif score >= p.score_target:
                share = 1.0
            else:
                share = (score - self._lowest) / (p.score_target - self._lowest)
            yield _target("score", share, f"{score_text(score)} / {score_text(p.score_target)}", "", cells)

    def _figures(self, cells: int) -> Iterator[Text]:
        p = self._progress
        yield _row("return", (score_text(p.mean_return), "training"), (score_text(p.near_greedy_return), "near-greedy"))
        greedy = _row("greedy", (score_text(p.evaluation_return), "evaluated"), (score_text(p.best_evaluation), "best"))
        room = min(cells - greedy.cell_len - 2, _WIDEST_SPARKLINE)
        yield greedy.append("  " + sparkline(self._evaluations, max(room, 1)), style="green")
        yield _row(
            "speed",
            (count(p.steps_per_second), "steps/s"),
            (count(p.learner_steps_per_second), "updates/s"),
            (count(p.episodes), "episodes"),
            (duration(p.seconds), "elapsed"),
        )
        yield _row(
            "replay",
            (f"{count(p.replay_size)} / {count(p.replay_capacity)}", f"({size(p.replay_bytes)})"),
            (number(p.samples_per_insert), "samples/insert"),
        )
        yield _row(
            "policy",
            (f"v{p.policy_version}", ""),
            (number(p.staleness), "updates stale"),
            (number(p.loss, 4), "loss"),
        )

    def _times(self, cells: int, shades: str) -> Iterator[Text]:
        p = self._progress
        alive = f"{p.actors_alive} of {p.actors_total} {p.role}s alive"
        yield Text()
        acting, learning = ("acting", "learning") if p.role == "worker" else ("actors", "learner")
        for label, names, shares in (
            (acting, ACTOR_TIMES, p.actor_times),
            (learning, LEARNER_TIMES, p.learner_times),
        ):
            yield _segments(label, names, shares, cells, shades)
            yield _legend(names, shares, shades, cells)
        holder = [("bottleneck ", "dim"), (f"{p.bottleneck}   ", "bold")] if p.bottleneck else []
        yield Text.assemble(
            *holder,
            (alive, "bold red" if p.actors_alive < p.actors_total else "dim"),
            ("   evaluating" if p.paused else "", "italic"),
        )


class _Lines:
    """Lines that are truncated, never wrapped, so that the board keeps its height."""

    def __init__(self, lines: Sequence[Text]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text in self._lines:
            text.truncate(options.max_width, overflow="ellipsis")
            text.no_wrap = True
            yield text


def sparkline(values: Sequence[float], cells: int) -> str:
    """The last values as bars, one per cell, scaled between minimum and maximum."""
    shown = list(values)[-cells:]
    if not shown:
        return ""
    low, span = min(shown), max(shown) - min(shown)
    top = len(_SPARKS) - 1
    return "".join(_SPARKS[round(top * (value - low) / span) if span > 0 else top // 2] for value in shown)


def _row(label: str, *pairs: tuple[str, str]) -> Text:
    row = Text.assemble((label.ljust(_LABEL_CELLS), "dim"))
    for index, (value, unit) in enumerate(pairs):
        row.append("  " if index else "").append(value, style="bold").append(f" {unit}" if unit else "", style="dim")
    return row


def _target(label: str, share: float, value: str, left: str, cells: int) -> Text:
    share = min(max(share, 0.0), 1.0)
    note = f" {value:>20} {share:>5.0%}{left:>10}"
    width = max(cells - _LABEL_CELLS - len(note), 4)
    filled = round(width * share)
    return Text.assemble(
        (label.ljust(_LABEL_CELLS), "dim"), ("━" * filled, "green"), ("╌" * (width - filled), "bright_black"), note
    )


def _segments(label: str, names: Sequence[str], shares: Mapping[str, float], cells: int, shades: str) -> Text:
    """A bar of colored segments; their ends are rounded, so that they fill the bar exactly."""
    width = max(cells - _LABEL_CELLS, 6)
    text = Text.assemble((label.ljust(_LABEL_CELLS), "dim"))
    total, done, before = sum(shares.values()), 0.0, 0
    for name, color, shade in zip(names, style_times(_COLORS, names), style_times(shades, names), strict=True):
        done += shares.get(name, 0.0)
        end = round(width * done / total) if total > 0 else 0
        text.append(shade * (end - before), style=color)
        before = end
    return text.append(" " * (width - before))


def _legend(names: Sequence[str], shares: Mapping[str, float], shades: str, cells: int) -> Text:
    """Names and shares in their fixed order; the smallest are left out if there is no room for all."""
    room, shown = cells - _LABEL_CELLS, set[str]()
    for name in sorted(names, key=lambda name: -shares.get(name, 0.0)):
        room -= len(_entry(name, shares)) + 2
        if room < -1:  # no gap after the last one
            break
        shown.add(name)
    text = Text(" " * _LABEL_CELLS)
    for name, color, shade in zip(names, style_times(_COLORS, names), style_times(shades, names), strict=True):
        if name in shown:
            text.append("■" if shade == "━" else shade, style=color).append(_entry(name, shares) + " ")
    return text


def _entry(name: str, shares: Mapping[str, float]) -> str:
    return f" {name} {shares.get(name, 0.0):.0%}"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(max(seconds, 0.0))} left"


def _keep_end(text: str, cells: int) -> str:
    return text if len(text) <= cells else "…" + text[len(text) - cells + 1 :]
