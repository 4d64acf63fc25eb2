"""What a study leaves behind: its trials as CSV, as one HTML page, and as a table in the terminal."""

import csv
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter
from rich.table import Table
from rich.text import Text

from headrace.report.document import document, plot_row, tile_row
from headrace.report.formats import count, duration, score_text
from headrace.report.output import write_output
from headrace.report.svg import COLORS, plain_axes, to_svg
from headrace.tuning.space import Space
from headrace.tuning.study import PARTS, TrialRow, shown, shown_value

__all__ = ["CSV_NAME", "PAGE_NAME", "trial_table", "write_results"]

CSV_NAME, PAGE_NAME = "trials.csv", "trials.html"
"""Files in the study's directory."""
_COLORS = {"complete": COLORS["c1"], "pruned": COLORS["c2"]}


def trial_table(rows: Sequence[TrialRow], spaces: Sequence[Space]) -> Table:
    """The trials by rank, for a terminal."""
    table = Table(pad_edge=False)
    for heading in _headings(spaces):
        table.add_column(heading, justify="right", overflow="fold")
    for rank, row in enumerate(rows, start=1):
        table.add_row(*map(Text, _cells(rank, row, spaces)))
    return table


def write_results(rows: Sequence[TrialRow], spaces: Sequence[Space], path: Path, title: str) -> None:
    """Writes the CSV file and the page into the study's directory; raises StorageError if they can't be written."""
    write_output(path / CSV_NAME, _csv(rows, spaces))
    write_output(path / PAGE_NAME, _page(rows, spaces, path, title))


def _csv(rows: Sequence[TrialRow], spaces: Sequence[Space]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [space.name for space in spaces]
    writer.writerow(["trial", "state", "score", *names, "environment_steps", "seconds", "run_directory", "note"])
    for row in rows:
        values = [row.settings.get(name) for name in names]
        writer.writerow(
            [row.number, row.state, row.score, *values, row.environment_steps, row.seconds, row.path, row.note]
        )
    return out.getvalue()


def _page(rows: Sequence[TrialRow], spaces: Sequence[Space], path: Path, title: str) -> str:
    best = [row for row in rows if row.state == "complete"][:1]
    tiles = [(score_text(row.score), f"best score: trial {row.number}, {shown(row.settings)}", True) for row in best]
    for state in ("complete", "pruned", "failed", "interrupted"):
        amount = sum(row.state == state for row in rows)
        tiles += [(count(amount), state, False)] if amount else []
    head = _html_row(_headings(spaces))
    body = "".join(_html_row(_cells(rank, row, spaces)) for rank, row in enumerate(rows, start=1))
    sections = (
        ("Scores", plot_row([_order(rows), _curves(rows)])),
        ("Settings", plot_row([_values(rows, space) for space in spaces])),
        ("Trials", f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'),
    )
    return document(title, f"<code>{escape(str(path))}</code>", tile_row(tiles), sections)


def _headings(spaces: Sequence[Space]) -> list[str]:
    return ["rank", "trial", "score", *(space.name for space in spaces), "steps", "time", "state", "run directory"]


def _cells(rank: int, row: TrialRow, spaces: Sequence[Space]) -> list[str]:
    ranked = str(rank) if row.state == "complete" else ""
    values = [shown_value(row.settings.get(space.name, "")) for space in spaces]
    spent = [count(row.environment_steps), duration(row.seconds)]
    return [ranked, str(row.number), score_text(row.score), *values, *spent, row.state, str(row.path)]


def _html_row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _order(rows: Sequence[TrialRow]) -> str:
    """Scores in the order of trials, and the best one so far."""
    figure, axes = plain_axes("trial", "score")
    _scatter(axes, [(row.number, row) for row in rows])
    best: list[float] = []
    complete = sorted((row for row in rows if row.state == "complete"), key=lambda row: row.number)
    for row in complete:
        best.append(max([*best[-1:], row.score or 0.0]))
    axes.step([row.number for row in complete], best, where="post", color=COLORS["c3"], linewidth=1.5, label="best")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8, labelcolor=COLORS["ink"])
    return to_svg(figure, "trials", "Scores of the trials")


def _curves(rows: Sequence[TrialRow]) -> str:
    """Evaluations of each trial over its run."""
    figure, axes = plain_axes("share of the run", "score")
    for row in rows:
        if row.curve:
            shares = [part / PARTS for part in row.curve]
            color = _COLORS.get(row.state, COLORS["c6"])
            axes.plot(shares, list(row.curve.values()), color=color, marker="o", markersize=2.5, linewidth=1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(0, 1.02)
    return to_svg(figure, "curves", "Evaluations of the trials over their runs")


def _values(rows: Sequence[TrialRow], space: Space) -> str:
    """Scores against the values of one setting."""
    figure, axes = plain_axes(space.name, "score")
    chosen = [(row.settings[space.name], row) for row in rows if space.name in row.settings]
    if space.kind == "choice":
        axes.set_xticks(range(len(space.choices)), space.choices)
        chosen = [(space.choices.index(value), row) for value, row in chosen]
    else:
        axes.set_xscale("log" if space.kind == "log" else "linear")
        axes.set_xlim(space.low, space.high)
    _scatter(axes, chosen)
    return to_svg(figure, f"setting-{space.name}", f"Scores against {space.name}")


def _scatter(axes: Axes, placed: Sequence[tuple[Any, TrialRow]]) -> None:
    """A mark for each trial with a score, in the color of its state."""
    for state, color in _COLORS.items():
        points = [(x, row.score) for x, row in placed if row.state == state and row.score is not None]
        if points:
            axes.plot(*zip(*points, strict=True), color=color, marker="o", markersize=4, linestyle="", label=state)
