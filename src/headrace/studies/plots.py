"""The plots of a study, as SVG text."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple

from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from headrace.report.svg import COLOURS, plain_axes, to_svg

__all__ = ["Line", "draw_lines"]


class Line(NamedTuple):
    """Values over the plot's places, nan where there is none; `colour` as the style sheet names it."""

    values: Sequence[float]
    colour: str
    dashed: bool = False


def draw_lines(
    name: str, x_label: str, y_label: str, x: Sequence[float], lines: Mapping[str, Line], *, logarithmic: bool = False
) -> str:
    """Lines with a mark at each value, over few places that stand at equal distances."""
    figure, axes = plain_axes(x_label, y_label)
    places = range(len(x))
    for label, line in lines.items():
        style: Any = (0, (4, 3)) if line.dashed else "-"
        colour = COLOURS[line.colour]
        axes.plot(
            places, line.values, color=colour, marker="o", markersize=4, linewidth=1.5, linestyle=style, label=label
        )
    axes.set_xticks(list(places), [f"{place:g}" for place in x])
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ScalarFormatter())
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.ticklabel_format(axis="y", style="plain")
    else:
        highest = max((value for line in lines.values() for value in line.values if not isnan(value)), default=0.0)
        axes.set_ylim(0, 1.1 * highest or 1.0)
    legend: dict[str, Any] = {"frameon": False, "fontsize": 8, "labelcolor": COLOURS["ink"], "handlelength": 3}
    figure.legend(loc="outside lower left", ncols=4, **legend)
    return to_svg(figure, name, f"{y_label} against {x_label}")
