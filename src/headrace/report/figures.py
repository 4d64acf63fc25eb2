"""The plots of a report: SVG text to put straight into a page, coloured by the page's style sheet."""

import io
import re
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

from headrace.report.formats import duration
from headrace.report.history import History, Record, column

__all__ = ["TIME_COLOURS", "learning_curve", "over_time", "time_shares"]

# Okabe and Ito's palette, which the colour-blind can tell apart; the page's style sheet has its dark twin.
_COLOURS = {
    "ink": "#24292f",
    "faint": "#d0d7de",
    "c1": "#0072b2",
    "c2": "#e69f00",
    "c3": "#009e73",
    "c4": "#56b4e9",
    "c5": "#cc79a7",
    "c6": "#8c959f",
    "c7": "#d55e00",
}
TIME_COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6")
"""Style-sheet names of the colours of ACTOR_TIMES and LEARNER_TIMES, in their order."""
_AXES = {"environment_steps": "environment steps", "seconds": "training time (h:mm:ss)"}
_SIZE = (5.6, 3.3)


def learning_curve(history: History, x: str, target: float | None) -> str:
    """Returns in training and of greedy evaluations, against "environment_steps" or "seconds"."""
    figure, axes = _axes(x, "return of an episode")
    drawn = False
    for key, colour, label in (
        ("mean_return", "c1", "training, last 100 episodes"),
        ("near_greedy_return", "c4", "training, least exploring"),
    ):
        steps, values = column(history.progress, x, key)
        if len(steps):
            axes.plot(steps, values, color=_COLOURS[colour], linewidth=1.5, label=label)
            drawn = True
    steps, mean, spread = column(history.evaluations, x, "mean_return", "std_return")
    if len(steps):
        axes.errorbar(
            steps, mean, yerr=spread, color=_COLOURS["c7"], marker="o", markersize=3.5, linewidth=1.5,
            elinewidth=0.8, capsize=2, label="greedy evaluation, ± standard deviation",
        )  # fmt: skip
        drawn = True
    if target is not None:
        axes.axhline(target, color=_COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=f"target {target:g}")
    if drawn or target is not None:
        figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8, labelcolor=_COLOURS["ink"])
    return _svg(figure, f"curve-{x}", f"Return of an episode against {_AXES[x]}")


def over_time(progress: Sequence[Record], key: str, label: str, *, target: float | None = None) -> str:
    """One number of the progress records against training time, with the value that it should have."""
    figure, axes = _axes("seconds", label)
    seconds, values = column(progress, "seconds", key)
    axes.plot(seconds, values, color=_COLOURS["c1"], linewidth=1.5)
    if target is not None:
        axes.axhline(target, color=_COLOURS["ink"], linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate(
            f"set: {target:g}", (1, target), xycoords=("axes fraction", "data"), xytext=(-2, 3),
            textcoords="offset points", ha="right", fontsize=8, color=_COLOURS["ink"],
        )  # fmt: skip
    axes.set_ylim(0, 1.15 * max(values.max(initial=0.0), target or 0.0) or 1.0)
    return _svg(figure, key, f"{label} against training time")


def time_shares(progress: Sequence[Record], side: str, names: Sequence[str]) -> str:
    """Shares of a side's time, "actor_times" or "learner_times", stacked, against training time."""
    figure, axes = _axes("seconds", "share of time")
    seconds, *shares = column(progress, "seconds", *(f"{side}.{name}" for name in names), points=200)
    if len(seconds):
        colours = [_COLOURS[name] for name in TIME_COLOURS]
        axes.stackplot(seconds, *shares, colors=colours, linewidth=0, labels=names)
        axes.set_xlim(seconds[0], max(seconds[-1], seconds[0] + 1e-9))
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    return _svg(figure, side, f"Shares of time: {', '.join(names)}")


def _axes(x: str, y_label: str) -> tuple[Figure, Axes]:
    """Empty axes in the manner of every plot."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(_AXES[x])
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_COLOURS["faint"])
    axes.tick_params(colors=_COLOURS["ink"], labelsize=8, length=3)
    axes.grid(color=_COLOURS["faint"], linewidth=0.5)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(_COLOURS["ink"])
        label.set_fontsize(9)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 3, 5, 6, 10] if x == "seconds" else None))
    show = duration if x == "seconds" else _thousands
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: show(value)))
    return figure, axes


def _thousands(value: float) -> str:
    for divisor, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= divisor:
            return f"{value / divisor:g} {unit}"
    return f"{value:g}"


def _svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an <svg> element: text as text, colours as variables, ids that are its own in the page."""
    name = re.sub(r"\W", "-", name)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(|href=")#', rf"\1#{name}-", svg)
    for variable, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    return f'{opening} role="img" aria-label="{title}">{rest}'
