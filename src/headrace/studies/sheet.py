"""Measurements that survive an interrupt: CSV files that record which cases they contain."""

import csv
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.report.output import while_reading
from headrace.studies.results import Origin, write_rows

__all__ = ["CASE", "Row", "Rows", "Sheet", "fingerprint", "in_order", "read_published", "read_rows"]

Row = Mapping[str, Any]
Rows = Sequence[Row]
CASE = "case"
"""The column with the name of a row's case."""
_ORIGIN = tuple(field.name for field in fields(Origin))
_TEXT = {CASE, *_ORIGIN} - {"cores"}


def fingerprint(kind: str, settings: object) -> str:
    """A name for a measurement, equal for equal settings: dataclasses, and what is JSON-able or has a plain str().

    Fields that are off (false, 0, None or empty) don't count, so that a new option renames no earlier measurement.
    """
    text = json.dumps([kind, _decisive(settings)], sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _decisive(settings: object) -> object:
    """The settings without fields that are off."""
    if is_dataclass(settings) and not isinstance(settings, type):
        settings = asdict(settings)
    if isinstance(settings, Mapping):
        found = {name: _decisive(value) for name, value in settings.items()}
        return {name: value for name, value in found.items() if value}
    return [_decisive(value) for value in settings] if isinstance(settings, list | tuple) else settings


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a CSV file that a study wrote; numeric cells become numbers, and empty cells None.

    `columns` are those between case and origin: raises ConfigError if the file has others. Raises StorageError if the
    file can't be read.
    """
    try:
        with while_reading(path), path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"{path} is not a CSV file: {error}") from error
    if not rows:
        return []
    wanted = list(rows[0]) if columns is None else [CASE, *columns, *_ORIGIN]
    missing = sorted({*_ORIGIN, *({CASE} if columns is not None else ())} - set(rows[0]))
    if missing or any(None in row or None in row.values() for row in rows):
        raise ConfigError(f"{path} is not a file of this study ({', '.join(missing) or 'cells'} missing)")
    if list(rows[0]) != wanted:
        raise ConfigError(
            f"{path} has the columns {', '.join(rows[0])}, and those of this version are {', '.join(wanted)}; give "
            "another --output, or move the file away"
        )
    return [{key: row.get(key, "") if key in _TEXT else _value(row.get(key, "")) for key in wanted} for row in rows]


def read_published(study: str, name: str, *, verbatim: bool = False) -> list[dict[str, Any]]:
    """The rows of a file with published figures in a study's folder; numbers as in read_rows(), unless verbatim.

    The column `read` names the source of a figure: a table, the text, a bar of a plot, the code, or a calculation.
    """
    text = (files("headrace.studies") / study / name).read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return rows if verbatim else [{key: _value(cell) for key, cell in row.items()} for row in rows]


def in_order(rows: Iterable[dict[str, Any]], cases: Iterable[str]) -> list[dict[str, Any]]:
    """Rows in the order of their cases; rows of other cases come last."""
    places = {case: place for place, case in enumerate(cases)}
    return sorted(rows, key=lambda row: places.get(row[CASE], len(places)))


class Sheet:
    """The rows of one CSV file, in memory and on disk, each with its case, these columns and its origin.

    Existing rows of the file keep their origin. Raises ConfigError, before anything is measured, if they have other
    columns; StorageError if the file can't be read or written.
    """

    def __init__(self, path: Path, origin: Origin, columns: Sequence[str]) -> None:
        self._path = path
        self._origin = asdict(origin)
        self._columns = [CASE, *columns, *_ORIGIN]
        self.rows = read_rows(path, columns) if path.exists() else []
        """All rows in the order in which they were added; see read_rows()."""

    def require_machine(self) -> None:
        """Raises ConfigError for rows that were measured on another machine than new ones would be."""
        machine, cores = self._origin["machine"], self._origin["cores"]
        for row in self.rows:
            if (row["machine"], row["cores"]) != (machine, cores):
                raise ConfigError(
                    f"{self._path} holds measurements of another machine ({row['machine']}, {row['cores']} cores), "
                    "and measurements of two machines can't be mixed; give another --output"
                )

    def has(self, case: str) -> bool:
        """Whether the case is measured already."""
        return any(row[CASE] == case for row in self.rows)

    def of(self, cases: Iterable[str]) -> list[dict[str, Any]]:
        """The rows of these cases, in their order."""
        names = list(cases)
        return in_order((row for row in self.rows if row[CASE] in names), names)

    def put(self, case: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes a case's rows and replaces existing ones; raises ConfigError unless their keys are its columns."""
        added = [{CASE: case, **row, **self._origin} for row in rows]
        for row in added:
            wrong = sorted(row.keys() ^ set(self._columns))
            if wrong:
                raise ConfigError(f"{self._path.name}, {case}: {', '.join(wrong)}: either no column, or not in the row")
        self.rows = [row for row in self.rows if row[CASE] != case]
        self.rows += [{column: row[column] for column in self._columns} for row in added]
        write_rows(self._path, self.rows)


def _value(cell: str) -> Any:
    """Converts a cell: a number if possible, None if it is empty."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None
