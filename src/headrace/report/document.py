"""The frame of every page: one self-contained HTML document, light or dark like the reader's system."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

__all__ = ["document", "plot_row", "share_bar", "tile_row"]


def document(title: str, lead: str, opening: str, sections: Iterable[tuple[str, str]]) -> str:
    """The page: a title, a gray line below it, an opening, and named sections; empty sections are left out.

    `title` is text; `lead`, `opening` and the sections' bodies are HTML.
    """
    style = (files("headrace.report") / "page.css").read_text(encoding="utf-8")
    body = "\n".join(f"<section><h2>{escape(name)}</h2>{html}</section>" for name, html in sections if html)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style></head>\n<body><header><h1>{escape(title)}</h1>"
        f'<p class="soft">{lead}</p></header>\n{opening}\n{body}\n</body></html>\n'
    )


def tile_row(tiles: Iterable[tuple[str, str, bool]]) -> str:
    """The most important numbers, each with a note and whether it meets its target."""
    return '<div class="tiles">' + "".join(
        f'<div class="tile{" good" if good else ""}"><b>{escape(value)}</b><span>{escape(note)}</span></div>'
        for value, note, good in tiles
    ) + "</div>"  # fmt: skip


def share_bar(shares: Sequence[tuple[str, str, float]]) -> str:
    """A bar of parts and their legend; each part has a name, a style-sheet color and a share."""
    bar = "".join(
        f'<div style="flex:{share:.5f} 0 0;background:var(--{color})" title="{name} {share:.1%}"></div>'
        for name, color, share in shares
    )
    legend = "".join(
        f'<li><i style="background:var(--{color})"></i>{name} <b>{share:.1%}</b></li>' for name, color, share in shares
    )
    return f'<div class="bar">{bar}</div><ul class="legend">{legend}</ul>'


def plot_row(svgs: Iterable[str]) -> str:
    """Plots side by side if there is room."""
    return '<div class="plots">' + "".join(f"<figure>{svg}</figure>" for svg in svgs) + "</div>"
