"""The plot of steps to the score, of real and simulated runs."""

import math
import statistics

from matplotlib.ticker import EngFormatter

from benchmarks.validation.cases import MODES, SETUPS
from benchmarks.validation.comparison import Rows, chosen, steps_to_score
from headrace.report.svg import COLORS, plain_axes, stand_alone, to_svg

__all__ = ["draw_steps"]

_COLORS = {"real": "c1", "simulated": "c2"}
_OFFSETS = {"real": -0.15, "simulated": 0.15}


def draw_steps(rows: Rows) -> str:
    """A mark for each run, and a line at each median, as an SVG file; runs without the score are left out."""
    setups = [setup for setup in SETUPS if any(chosen(rows, setup, mode) for mode in MODES)]
    figure, axes = plain_axes("environment steps to the score", "")
    for mode in MODES:
        color, shown = COLORS[_COLORS[mode]], False
        for place, setup in enumerate(setups):
            steps = [each for each in steps_to_score(chosen(rows, setup, mode)) if each < math.inf]
            if steps:
                y, label = place + _OFFSETS[mode], None if shown else mode
                axes.scatter(steps, [y] * len(steps), s=14, color=color, alpha=0.7, linewidths=0, label=label)
                axes.vlines(statistics.median(steps), y - 0.12, y + 0.12, color=color, linewidth=2)
                shown = True
    axes.set_yticks(range(len(setups)), [setup.name for setup in setups])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.legend(loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    return stand_alone(to_svg(figure, "steps-to-score", "Environment steps to the score, real and simulated"))
