"""The page of every study: the text of its page.md, with tables, plots and tiles in place of their names."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from math import isnan
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from headrace.report.document import document, tile_row
from headrace.report.output import write_output
from headrace.studies.comparisons import Comparison, asked
from headrace.studies.curves import WINDOW
from headrace.studies.results import Origin
from headrace.studies.sheet import Rows
from headrace.studies.statistics import median, middle
from headrace.studies.training import FINAL_EPISODES

__all__ = [
    "Cell", "Columns", "bars", "cells", "figure_text", "misses", "note_list", "number_of", "range_text",
    "summary_table", "table", "worst_tiles", "write_page",
]  # fmt: skip

Cell = str | float | None
"""A text, or a figure that figure_text() shows."""
Columns = Mapping[str, str | Callable[[Rows], Cell]]
"""Columns of a table over groups of rows: for each title the argument of cells(), or a function of the group."""
_LONG = 32
"""Cells with more characters wrap between words; shorter ones, such as figures, stay on one line."""
_WORST = ", where it is worst"
_BLOCK = re.compile(r'<p><img src="(\w+)" alt="(.*?)" ?/?></p>', re.DOTALL)
_WORD = re.compile(r"\{(\w+)\}")


def write_page(path: Path, text: str, blocks: Mapping[str, str], rows: Rows, notes: list[str], origin: Origin) -> None:
    """Writes a study's page; raises StorageError.

    In `text`, Markdown, `![caption](name)` on a separate line stands for a block of HTML, `![](name)` for one without
    a caption, and `{name}` for a word. A section whose blocks are all empty is left out.
    """
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    several = f"Measured with several commits, each row has its own: {', '.join(commits)}."
    known = {
        "left_out": note_list(notes),
        "commits": several if len(commits) > 1 else "",
        "episodes": str(FINAL_EPISODES),
        "window": str(WINDOW),
        **blocks,
    }
    parts = (origin.commit, origin.date, f"{origin.cores} cores", origin.machine)
    lead = f"<code>{escape(origin.command)}</code>" + "".join(f" · {escape(part)}" for part in parts)
    (title, opening), *sections = _sections(text, known)
    write_output(path, document(title, lead, opening, sections))


def _sections(text: str, blocks: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The headings, each with the HTML below it."""
    for section in re.split(r"^##? ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        html = MarkdownIt().render(body)
        names = [name for name, _ in _BLOCK.findall(html)]
        if any(blocks[name] for name in names) or not names:
            html = _WORD.sub(lambda found: escape(blocks[found[1]]), re.sub(r"<p>(?!<img)", '<p class="soft">', html))
            yield heading, _BLOCK.sub(lambda found: _figure(blocks[found[1]], found[2]), html)


def _figure(html: str, caption: str) -> str:
    return f"<figure><figcaption>{caption}</figcaption>{html}</figure>" if html and caption else html


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table of Cells that scrolls on narrow screens; the first column names the row. Empty without rows."""
    body = "".join(_line([each if isinstance(each, str) else figure_text(each) for each in row]) for row in rows)
    lines = f'<div class="scroll"><table><thead class="soft">{_line(header)}</thead>{body}</table></div>'
    return _figure(lines, escape(caption)) if body else ""


def summary_table(groups: Iterable[tuple[str, Rows]], columns: Columns) -> str:
    """A table with a line for each named group of rows."""
    lines = [
        (name, *(cell(rows) if callable(cell) else cells(rows, cell)[0] for cell in columns.values()))
        for name, rows in groups
    ]
    return table(("", *columns), lines)


def bars(named: Iterable[tuple[str, str]]) -> str:
    """Named bars of shares side by side if there is room."""
    figures = "".join(f"<figure><h3>{escape(name)}</h3>{bar}</figure>" for name, bar in named)
    return f'<div class="plots">{figures}</div>' if figures else ""


def _line(texts: Sequence[str]) -> str:
    tags = ["th", *["td"] * (len(texts) - 1)]
    marks = (' class="text"' if len(text) > _LONG else "" for text in texts)
    cells_ = (f"<{tag}{mark}>{escape(text)}</{tag}>" for tag, mark, text in zip(tags, marks, texts, strict=True))
    return f"<tr>{''.join(cells_)}</tr>"


def worst_tiles(comparisons: Sequence[Comparison], wanted: Mapping[str, str], shares: Collection[str] = ()) -> str:
    """A tile for each required figure with its worst value, marked good if the requirement is met everywhere.

    `wanted` has the description of each figure; those in `shares` are shown as percentages.
    """
    shown = []
    for figure, words in wanted.items():
        judged = [each for each in comparisons if each.figure == figure and each.verdict]
        there = [each for each in judged if each.ours is not None]
        if not judged:
            continue
        value, text = "–", words
        if there:
            worst = max(there, key=lambda each: (each.verdict != "holds", each.shortfall))
            value = f"{worst.ours:.1%}" if figure in shares else figure_text(worst.ours)
            place = worst.where.removesuffix(_WORST)
            text += f": {place}{_WORST} ({asked(worst)})"
        absent = sum(each.ours is None and each.verdict == "MISSED" for each in judged)
        text += f"; {absent} of {len(judged)} not reached" if absent else ""
        shown.append((value, text, all(each.verdict == "holds" for each in judged)))
    return tile_row(shown)


def misses(comparisons: Iterable[Comparison]) -> str:
    """A list of the figures that miss the required or the published value."""
    return note_list(
        f"{each.figure}, {each.where}: {'not reached' if each.ours is None else figure_text(each.ours)}, "
        f"{asked(each)}" + (f": {each.note}" if each.note else "")
        for each in comparisons
        if each.verdict == "MISSED"
    )


def figure_text(value: float | None, digits: int = 3) -> str:
    """Three significant digits: 12345.6 -> "12,300", 0.01234 -> "0.0123"; an en dash for a missing value."""
    if value is None or isnan(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"


def cells(rows: Rows, *columns: str) -> list[str]:
    """The medians of these columns, in three digits, or in the format that follows a colon; en dashes without rows."""
    found = []
    for column, _, form in (column.partition(":") for column in columns):
        value = middle(rows, column)
        found.append(f"{value:{form}}" if form and not isnan(value) else figure_text(value))
    return found


def number_of(rows: Rows) -> str:
    """The number of rows, such as seeds or rounds."""
    return str(len(rows))


def range_text(values: Sequence[float], center: Callable[[Sequence[float]], float] = median) -> str:
    """The center of some values, with minimum and maximum if there are several."""
    text = figure_text(center(values))
    return f"{text} ({figure_text(min(values))} to {figure_text(max(values))})" if len(values) > 1 else text


def note_list(notes: Iterable[str]) -> str:
    """A list of notes; empty if there are none."""
    lines = "".join(f"<li>{escape(each)}</li>" for each in notes)
    return f"<ul>{lines}</ul>" if lines else ""
