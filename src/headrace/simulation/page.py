"""The page of a prediction: speed, staleness and scores by number of cores, and the knee."""

import math
from collections.abc import Sequence
from html import escape

from headrace.report.document import document, plot_row, tile_row
from headrace.report.svg import COLORS, SERIES, plain_axes, to_svg
from headrace.simulation.capacity import Prediction, find_knee

__all__ = ["present"]


def present(title: str, command: str, predictions: Sequence[Prediction]) -> str:
    """The page as HTML; `command` made it."""
    knee = find_knee(predictions)
    best = max(predictions, key=lambda each: each.steps_per_second)
    tiles = [
        (f"{knee} cores", "the knee: more cores are less than half as useful", False),
        (f"{best.steps_per_second:,.0f} steps/s", f"the most, on {best.cores} cores", False),
        (f"{best.updates_per_second:,.0f} updates/s", f"on {best.cores} cores", False),
    ]
    curves = [
        _curve("environment steps per second", [each.steps_per_second for each in predictions], predictions),
        _curve("learner updates per second", [each.updates_per_second for each in predictions], predictions),
        _curve("staleness (updates)", [_number(each.staleness) for each in predictions], predictions),
    ]
    lead = f"simulated, not measured: <code>{escape(command)}</code>"
    sections = (
        ("Speed and staleness", plot_row(curves)),
        ("Score over time", plot_row([_scores(predictions)]) if any(each.scores for each in predictions) else ""),
        ("Who waits for whom", _table(predictions)),
    )
    return document(title, lead, tile_row(tiles), sections)


def _number(value: float | None) -> float:
    """nan, which leaves a gap, for a run without an update."""
    return math.nan if value is None else value


def _curve(label: str, values: Sequence[float], predictions: Sequence[Prediction]) -> str:
    figure, axes = plain_axes("cores", label)
    cores = [each.cores for each in predictions]
    axes.plot(cores, values, color=COLORS["c1"], marker="o", markersize=4, linewidth=1.5)
    axes.set_xscale("log", base=2)
    axes.set_xticks(cores, [str(count) for count in cores])
    axes.set_ylim(bottom=0)
    return to_svg(figure, label, f"{label} by number of cores")


def _scores(predictions: Sequence[Prediction]) -> str:
    figure, axes = plain_axes("training seconds", "mean return")
    for index, each in enumerate(predictions):
        points = [(score.seconds, score.mean_return) for score in each.scores]
        color = COLORS[SERIES[index % len(SERIES)]]
        axes.plot(*zip(*points, strict=True), color=color, marker="o", markersize=3, label=f"{each.cores} cores")
    axes.legend(frameon=False, fontsize=8)
    return to_svg(figure, "scores", "mean return over training seconds")


def _table(predictions: Sequence[Prediction]) -> str:
    names = ("cores", "steps/s", "updates/s", "staleness", "cores busy", "bottleneck", "return", "ended by")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row(each)) + "</tr>" for each in predictions
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def row(prediction: Prediction) -> tuple[str, ...]:
    """A prediction as a row of the table."""
    score = prediction.mean_return
    return (
        str(prediction.cores),
        f"{prediction.steps_per_second:,.0f}",
        f"{prediction.updates_per_second:,.0f}",
        "-" if prediction.staleness is None else f"{prediction.staleness:.1f}",
        f"{prediction.cores_busy:.0%}",
        prediction.bottleneck,
        "-" if score is None else f"{score:.1f}",
        prediction.stopped_by,
    )
