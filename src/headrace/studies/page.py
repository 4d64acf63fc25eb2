"""The page of every study: frame, tables, tiles, and the origin of its numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import isnan
from pathlib import Path

from headrace.report.document import document, tile_row
from headrace.studies.base import Page
from headrace.studies.comparisons import Comparison, asked
from headrace.studies.results import Origin, write_text
from headrace.studies.sheet import Rows
from headrace.studies.statistics import median, middle

__all__ = [
    "Columns",
    "bars",
    "cells",
    "figure_text",
    "misses",
    "note",
    "note_list",
    "number_of",
    "range_text",
    "summary_table",
    "table",
    "worst_tiles",
    "write_page",
]

Columns = Mapping[str, str | Callable[[Rows], str]]
"""Columns of a table over groups of rows: for each title the argument of cells(), or a function of the group."""
_LONG = 32
"""Cells with more characters wrap between words; shorter ones, such as figures, stay on one line."""
_WORST = ", where it is worst"


def write_page(path: Path, page: Page, rows: Rows, notes: Iterable[str], origin: Origin) -> None:
    """Writes a study's page, with the cases left out first and the method last; raises StorageError."""
    method = list(page.method)
    commits = list(dict.fromkeys(row["commit"] for row in rows))
    if len(commits) > 1:
        method.append(f"Measured with several commits, each row has its own: {', '.join(commits)}.")
    sections = (
        ("Left out", note_list(notes)),
        *page.sections,
        ("How it was measured", "".join(f"<p>{escape(text)}</p>" for text in method)),
    )
    parts = (origin.commit, origin.date, f"{origin.cores} cores", origin.machine)
    lead = f"<code>{escape(origin.command)}</code>" + "".join(f" · {escape(part)}" for part in parts)
    write_text(path, document(page.title, lead, page.tiles, sections))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts that scrolls on narrow screens; the first column names the row."""
    head = _line(header)
    body = "".join(map(_line, rows))
    title = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    lines = f'<table><thead class="soft">{head}</thead>{body}</table>'
    return f'<figure>{title}<div class="scroll">{lines}</div></figure>' if body else ""


def summary_table(groups: Iterable[tuple[str, Rows]], columns: Columns, caption: str = "") -> str:
    """A table with a line for each named group of rows."""
    lines = [
        (name, *(cell(rows) if callable(cell) else cells(rows, cell)[0] for cell in columns.values()))
        for name, rows in groups
    ]
    return table(("", *columns), lines, caption)


def bars(named: Iterable[tuple[str, str]]) -> str:
    """Named bars of shares side by side if there is room."""
    figures = "".join(f"<figure><h3>{escape(name)}</h3>{bar}</figure>" for name, bar in named)
    return f'<div class="plots">{figures}</div>'


def _line(texts: Sequence[str]) -> str:
    tags = ["th", *["td"] * (len(texts) - 1)]
    marks = (' class="text"' if len(text) > _LONG else "" for text in texts)
    cells_ = (f"<{tag}{mark}>{escape(text)}</{tag}>" for tag, mark, text in zip(tags, marks, texts, strict=True))
    return f"<tr>{''.join(cells_)}</tr>"


def worst_tiles(comparisons: Sequence[Comparison], wanted: Iterable[tuple[str, str, Callable[[float], str]]]) -> str:
    """A tile for each required figure with its worst value, marked good if the requirement is met everywhere.

    `wanted` has the figure, its description, and the format of its value.
    """
    shown = []
    for figure, words, form in wanted:
        judged = [each for each in comparisons if each.figure == figure and each.verdict]
        there = [each for each in judged if each.ours is not None]
        if not judged:
            continue
        value, text = "–", words
        if there:
            worst = max(there, key=lambda each: (each.verdict != "holds", each.shortfall))
            value = form(worst.ours or 0.0)
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


def note(text: str) -> str:
    """A paragraph that explains the figures below it."""
    return f'<p class="soft">{escape(text, quote=False)}</p>'


def note_list(notes: Iterable[str]) -> str:
    """A list of notes; empty if there are none."""
    lines = "".join(f"<li>{escape(each)}</li>" for each in notes)
    return f"<ul>{lines}</ul>" if lines else ""
