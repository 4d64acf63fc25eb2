"""The frame of every page: one HTML document that needs nothing but itself, light or dark as its reader's system is."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

__all__ = ["document", "plot_row", "share_bar", "tile_row"]


def document(title: str, lead: str, opening: str, sections: Iterable[tuple[str, str]]) -> str:
    """The page: a title, a soft line below it, an opening, and named sections; an empty one is left out.

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
    """Numbers that one looks for first: each with what it is, and whether it is as good as it should be."""
    return '<div class="tiles">' + "".join(
        f'<div class="tile{" good" if good else ""}"><b>{escape(value)}</b><span>{escape(note)}</span></div>'
        for value, note, good in tiles
    ) + "</div>"  # fmt: skip


def share_bar(shares: Sequence[tuple[str, str, float]]) -> str:
    """A bar of parts and their legend: name, the style sheet's name of a color, share of the whole."""
    bar = "".join(
        f'<div style="flex:{share:.5f} 0 0;background:var(--{color})" title="{name} {share:.1%}"></div>'
        for name, color, share in shares
    )
    legend = "".join(
        f'<li><i style="background:var(--{color})"></i>{name} <b>{share:.1%}</b></li>' for name, color, share in shares
    )
    return f'<div class="bar">{bar}</div><ul class="legend">{legend}</ul>'


def plot_row(svgs: Iterable[str]) -> str:
    """Plots side by side, as far as there is room."""
    return '<div class="plots">' + "".join(f"<figure>{svg}</figure>" for svg in svgs) + "</div>"
