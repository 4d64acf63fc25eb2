"""The plots of a report, as SVG text."""

from collections.abc import Sequence, Sized
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from headrace.report.formats import duration
from headrace.report.history import History, Record, column
from headrace.report.progress import style_times
from headrace.report.svg import COLORS, SERIES, plain_axes, to_svg

__all__ = ["learning_curve", "output_errors", "over_time", "time_colors", "time_shares"]

_AXES = {"environment_steps": "environment steps", "seconds": "training time (h:mm:ss)"}


def learning_curve(history: History, x: str, target: float | None) -> str:
    """Returns of training episodes and greedy evaluations against "environment_steps" or "seconds"."""
    figure, axes = _axes(x, "return of an episode")
    drawn = False
    for key, color, label in (
        ("mean_return", "c1", "training, last 100 episodes"),
        ("near_greedy_return", "c4", "training, least exploring"),
    ):
        steps, values = column(history.progress, x, key)
        if len(steps):
            axes.plot(steps, values, color=COLORS[color], linewidth=1.5, label=label, **_single(steps))
            drawn = True
    steps, mean, spread = column(history.evaluations, x, "mean_return", "std_return")
    if len(steps):
        axes.errorbar(
            steps, mean, yerr=spread, color=COLORS["c7"], marker="o", markersize=3.5, linewidth=1.5,
            elinewidth=0.8, capsize=2, label="greedy evaluation, ± standard deviation",
        )  # fmt: skip
        drawn = True
    if target is not None:
        axes.axhline(target, color=COLORS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=f"target {target:g}")
    if drawn or target is not None:
        figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8, labelcolor=COLORS["ink"])
    return to_svg(figure, f"curve-{x}", f"Return of an episode against {_AXES[x]}")


def over_time(progress: Sequence[Record], key: str, label: str, *, target: float | None = None) -> str:
    """One number of the progress records against training time, with its configured value."""
    figure, axes = _axes("seconds", label)
    seconds, values = column(progress, "seconds", key)
    axes.plot(seconds, values, color=COLORS["c1"], linewidth=1.5, **_single(seconds))
    if target is not None:
        axes.axhline(target, color=COLORS["ink"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"set: {target:g}", (1, target), xycoords=("axes fraction", "data"), xytext=(-2, 3),
            textcoords="offset points", ha="right", fontsize=8, color=COLORS["ink"],
        )  # fmt: skip
    axes.set_ylim(0, 1.15 * max(values.max(initial=0.0), target or 0.0) or 1.0)
    return to_svg(figure, key, f"{label} against training time")


def output_errors(quantizations: Sequence[Record]) -> str:
    """Errors of the outputs of actors' policies relative to full precision, against training time."""
    figure, axes = _axes("seconds", "output")
    for key, color, label in (
        ("largest_output", "c6", "largest output"),
        ("largest", "c7", "largest error"),
        ("mean", "c1", "mean error"),
    ):
        seconds, values = column(quantizations, "seconds", key)
        seen = values > 0  # zero has no place on a logarithmic axis
        axes.plot(
            seconds[seen], values[seen], color=COLORS[color], marker="o", markersize=3.5, linewidth=1.5, label=label
        )
    axes.set_yscale("log")
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8, labelcolor=COLORS["ink"])
    return to_svg(figure, "output-errors", "Errors of outputs against training time")


def time_colors(names: Sequence[str]) -> tuple[str, ...]:
    """Style-sheet names of the colors of ACTOR_TIMES or LEARNER_TIMES."""
    return style_times(SERIES, names)


def time_shares(progress: Sequence[Record], side: str, names: Sequence[str]) -> str:
    """Stacked shares of a side's time ("actor_times" or "learner_times") against training time."""
    figure, axes = _axes("seconds", "share of time")
    seconds, *shares = column(progress, "seconds", *(f"{side}.{name}" for name in names), points=200)
    if len(seconds):
        colors = [COLORS[name] for name in time_colors(names)]
        axes.stackplot(seconds, *shares, colors=colors, linewidth=0, labels=names)
        axes.set_xlim(seconds[0], max(seconds[-1], seconds[0] + 1e-9))
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return to_svg(figure, side, f"Shares of time: {', '.join(names)}")


def _single(points: Sized) -> dict[str, Any]:
    """A marker for a single point, which has no line."""
    return {"marker": "o", "markersize": 3.5} if len(points) == 1 else {}


def _axes(x: str, y_label: str) -> tuple[Figure, Axes]:
    """Empty axes with training time or steps on the x axis."""
    figure, axes = plain_axes(_AXES[x], y_label)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 3, 5, 6, 10] if x == "seconds" else None))
    show = duration if x == "seconds" else _thousands
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    return figure, axes


def _thousands(value: float) -> str:
    for divisor, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= divisor:
            return f"{value / divisor:g} {unit}"
    return f"{value:g}"
