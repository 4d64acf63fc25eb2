"""SVG text for inclusion in a page, colored by the page's style sheet."""

import io
import re

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["COLORS", "SERIES", "plain_axes", "stand_alone", "to_svg"]

# Okabe and Ito's palette, which is safe for color-blind readers; the page's style sheet has a dark version.
COLORS = {
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
"""Colors of plots; to_svg() replaces them by the style sheet's variables with these names."""
SERIES = ("c1", "c2", "c3", "c4", "c5", "c7", "c6")
"""The colors of a plot's series, in their order."""
_SIZE = (5.6, 3.3)


def plain_axes(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    """Empty axes in the style of all plots."""
    figure = Figure(figsize=_SIZE, layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(COLORS["faint"])
    axes.tick_params(colors=COLORS["ink"], labelsize=8, length=3)
    axes.grid(color=COLORS["faint"], linewidth=0.5)
    axes.set_axisbelow(True)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(COLORS["ink"])
        label.set_fontsize(9)
    return figure, axes


def to_svg(figure: Figure, name: str, title: str) -> str:
    """The figure as an <svg> element: text stays text, colors become variables, ids are unique in the page."""
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
    for variable, color in COLORS.items():
        svg = svg.replace(color, f"var(--{variable})")
    opening, rest = svg.split(">", 1)
    opening = re.sub(r' (width|height)="[^"]*"', "", opening)
    return f'{opening} role="img" aria-label="{title}">{rest}'


def stand_alone(svg: str) -> str:
    """What to_svg() returned as the text of a file, in the colors of COLORS."""
    for variable, color in COLORS.items():
        svg = svg.replace(f"var(--{variable})", color)
    return svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
