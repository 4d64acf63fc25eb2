"""What the pages of all studies have: tables, and where their numbers come from."""

from collections.abc import Iterable, Sequence
from html import escape
from math import isnan

from headrace.studies.results import Origin

__all__ = ["figure_text", "lead_of", "note_list", "table"]


def lead_of(origin: Origin) -> str:
    """Command, commit, date and machine, as HTML."""
    parts = (origin.commit, origin.date, f"{origin.cores} cores", origin.machine)
    return f"<code>{escape(origin.command)}</code>" + "".join(f" · {escape(part)}" for part in parts)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of texts; the first column names its row."""
    head = "".join(f"<{'th' if not index else 'td'}>{escape(cell)}</{'th' if not index else 'td'}>"
                   for index, cell in enumerate(header))  # fmt: skip
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<table>{title}<thead class="soft"><tr>{head}</tr></thead>{body}</table>' if body else ""


def figure_text(value: float, digits: int = 3) -> str:
    """Three digits that count: 12345.6 -> "12,300", 0.01234 -> "0.0123"; an en dash where there is none."""
    if isnan(value):
        return "–"
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 10 ** (digits - 1) else f"{rounded:g}"


def note_list(notes: Iterable[str]) -> str:
    """Notes, one below the other; empty where there are none."""
    lines = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<ul>{lines}</ul>" if lines else ""
