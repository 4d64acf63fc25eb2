"""Measurements that outlive an interruption: CSV files that know which cases they hold."""

import csv
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, StorageError
from headrace.studies.results import Origin, write_rows

__all__ = ["Sheet", "fingerprint"]

_CASE = "case"


def fingerprint(kind: str, settings: object) -> str:
    """A name for all that decides a measurement: the same for the same settings, JSON-able or with a plain str()."""
    text = json.dumps([kind, settings], sort_keys=True, default=str)
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class Sheet:
    """The rows of one CSV file, in memory and on disk, each with its case, these columns and its origin.

    Rows that the file holds from before keep the origin that they have. Raises ConfigError where they were measured on
    another machine or have other columns, before anything is measured; StorageError where the file can't be read or
    written. Columns that are among `later` may be missing from the file, and are then empty.
    """

    def __init__(self, path: Path, origin: Origin, columns: Sequence[str], later: Collection[str] = ()) -> None:
        self._path = path
        self._later = later
        self._origin = asdict(origin)
        self._columns = [_CASE, *columns, *self._origin]
        self.rows: list[dict[str, Any]] = []
        """All rows, in the order in which they came; numbers are numbers, and what is empty is None."""
        if path.exists():
            self._read()

    def has(self, case: str) -> bool:
        """Whether the case is measured already."""
        return any(row[_CASE] == case for row in self.rows)

    def of(self, cases: Iterable[str]) -> list[dict[str, Any]]:
        """The rows of these cases, in their order."""
        places = {case: place for place, case in enumerate(cases)}
        return sorted((row for row in self.rows if row[_CASE] in places), key=lambda row: places[row[_CASE]])

    def put(self, case: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes a case's rows, in place of any that it has; their keys are the sheet's columns."""
        added = [{_CASE: case, **row, **self._origin} for row in rows]
        assert all(row.keys() == set(self._columns) for row in added)
        self.rows = [row for row in self.rows if row[_CASE] != case]
        self.rows += [{column: row[column] for column in self._columns} for row in added]
        write_rows(self._path, self.rows)

    def amend(self, case: str, values: Mapping[str, Any]) -> None:
        """Writes other values into a case's rows, which keep their origin: figures made anew of the same run."""
        assert values.keys() <= set(self._columns)
        for row in self.rows:
            if row[_CASE] == case:
                row.update(values)
        write_rows(self._path, self.rows)

    def _read(self) -> None:
        try:
            with self._path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        except OSError as error:
            raise StorageError(f"can't read {self._path}: {error.strerror}") from error
        needed = {_CASE, *self._origin}
        missing = sorted(needed - set(rows[0])) if rows else []
        if missing or any(None in row or None in row.values() for row in rows):
            raise ConfigError(f"{self._path} is no file of this study ({', '.join(missing) or 'cells'} missing)")
        kept = [column for column in self._columns if column not in self._later or (rows and column in rows[0])]
        if rows and list(rows[0]) != kept:
            raise ConfigError(
                f"{self._path} has the columns {', '.join(rows[0])}, and those of this version are "
                f"{', '.join(self._columns)}; give another --output, or move the file away"
            )
        text = {_CASE, *self._origin} - {"cores"}
        self.rows = [
            {key: row[key] if key in text else _value(row.get(key, "")) for key in self._columns} for row in rows
        ]
        for row in self.rows:
            if (row["machine"], row["cores"]) != (self._origin["machine"], self._origin["cores"]):
                raise ConfigError(
                    f"{self._path} holds measurements of another machine ({row['machine']}, {row['cores']} cores), "
                    "and those of two can't stand beside each other; give another --output"
                )


def _value(cell: str) -> Any:
    """A number where it is one, None where it is empty."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell or None
