"""The plots of a study, as SVG text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, ScalarFormatter

from headrace.report.svg import COLORS, plain_axes, to_svg
from headrace.studies.curves import Band, Curve, bands
from headrace.types import Array

__all__ = ["Line", "draw_curves", "draw_heat", "draw_lines"]

_LEGEND_CHARACTERS = 48
"""Maximum characters of the labels in one row; four labels with more would not fit."""


class Line(NamedTuple):
    """Values at the plot's x positions, nan if missing; `color` is a name of the style sheet."""

    values: Sequence[float]
    color: str
    dashed: bool = False


def draw_lines(
    name: str, x_label: str, y_label: str, x: Sequence[float], lines: Mapping[str, Line], *, logarithmic: bool = False
) -> str:
    """Lines with a mark at each value, over a few equidistant x positions."""
    figure, axes = plain_axes(x_label, y_label)
    places = range(len(x))
    for label, line in lines.items():
        style: Any = (0, (4, 3)) if line.dashed else "-"
        color = COLORS[line.color]
        axes.plot(
            places, line.values, color=color, marker="o", markersize=4, linewidth=1.5, linestyle=style, label=label
        )
    axes.set_xticks(list(places), [f"{place:g}" for place in x])
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.ticklabel_format(axis="y", style="plain")
    else:
        values = [0.0, *(value for line in lines.values() for value in line.values if not isnan(value))]
        axes.set_ylim(1.1 * min(values), 1.1 * max(values) or 1.0)
    _legend(figure)
    return to_svg(figure, name, f"{y_label} against {x_label}")


def draw_curves(
    name: str,
    title: str,
    groups: Mapping[str, Sequence[Curve]],
    colors: Iterable[str],
    levels: Mapping[str, float] | None = None,
) -> Iterator[str]:
    """Scores over environment steps and over training time, as bands over seeds, with dashed lines at labeled levels.

    The groups, by label, get the colors in turn. A plot without any band is left out.
    """
    colored = dict(zip(groups, colors, strict=False))
    for axis, words in (("steps", "environment steps"), ("seconds", "training time (s)")):
        found = bands(groups, axis)
        if found:
            shown = {label: (found[label], color) for label, color in colored.items() if label in found}
            yield _draw_bands(f"{name}-{axis}", f"{title}: {words}", shown, levels or {})


def _draw_bands(name: str, x_label: str, colored: Mapping[str, tuple[Band, str]], levels: Mapping[str, float]) -> str:
    figure, axes = plain_axes(x_label, "score")
    for label, (band, color) in colored.items():
        axes.plot(band.x, band.mean, color=COLORS[color], linewidth=1.5, label=label)
        low, high = band.mean - band.spread, band.mean + band.spread
        axes.fill_between(band.x, low, high, color=COLORS[color], alpha=0.2)
    for label, level in levels.items():
        axes.axhline(level, color=COLORS["ink"], linewidth=1, linestyle=(0, (4, 3)), label=f"{label} {level:g}")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    _legend(figure)
    return to_svg(figure, name, f"score against {x_label}")


def draw_heat(name: str, x_label: str, y_label: str, x: Sequence[float], y: Sequence[float], ratios: Array) -> str:
    """Ratios [len(y), len(x)] as numbers on colored cells; those above and below 1 have different colors."""
    figure, axes = plain_axes(x_label, y_label)
    axes.grid(visible=False)
    colors = LinearSegmentedColormap.from_list("ratio", [COLORS["c2"], "#ffffff", COLORS["c1"]])
    known = ratios[np.isfinite(ratios)]
    low, high = min(0.5, known.min(initial=1.0)), max(2.0, known.max(initial=1.0))
    axes.pcolormesh(
        np.arange(len(x) + 1), np.arange(len(y) + 1), ratios, cmap=colors, norm=TwoSlopeNorm(1.0, low, high), alpha=0.6
    )
    for row, column in np.argwhere(np.isfinite(ratios)):
        value = ratios[row, column]
        weight = "bold" if value > 1 else "normal"
        axes.text(column + 0.5, row + 0.5, f"{value:.2g}", ha="center", va="center", fontsize=8, weight=weight,
                  color=COLORS["ink"])  # fmt: skip
    axes.set_xticks(np.arange(len(x)) + 0.5, [f"{place:g}" for place in x])
    axes.set_yticks(np.arange(len(y)) + 0.5, [f"{place:g}" for place in y])
    return to_svg(figure, name, f"Ratios over {x_label} and {y_label}")


def _legend(figure: Figure) -> None:
    labels = figure.axes[0].get_legend_handles_labels()[1]
    columns = 4 if len("".join(labels[:4])) <= _LEGEND_CHARACTERS else 2
    figure.legend(
        loc="outside lower left", ncols=columns, frameon=False, fontsize=8, labelcolor=COLORS["ink"], handlelength=3
    )
