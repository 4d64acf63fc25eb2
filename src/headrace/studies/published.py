"""The figures that a study's source published."""

import csv
from importlib.resources import files

__all__ = ["read_published"]


def read_published(study: str, name: str) -> list[dict[str, str]]:
    """The rows of a file with published figures in a study's folder, as strings: not every cell is a number.

    The column `read` names the source of a figure: a table, the text, a bar of a plot, the code, or a calculation.
    """
    text = (files("headrace.studies") / study / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
