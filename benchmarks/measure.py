"""Times calls, and records and writes figures."""

import argparse
import csv
import functools
import gc
import importlib.util
import math
import os
import shlex
import statistics
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, sleep
from types import TracebackType
from typing import Any, NamedTuple, NoReturn, Self

from rich.console import Console
from rich.table import Table

from headrace.errors import HeadraceError
from headrace.studies.results import Origin, make_folder, write_rows

__all__ = [
    "RESULTS",
    "Row",
    "Rows",
    "at_least",
    "at_most",
    "faster",
    "interleave",
    "make_parser",
    "origin",
    "positive",
    "positive_number",
    "read_csv",
    "report",
    "require",
    "resident_bytes",
    "run",
    "take_turns",
    "warn_if_busy",
    "write_csv",
]

RESULTS = Path(__file__).parent / "results"
_ROOT = Path(__file__).parent.parent


class Row(NamedTuple):
    """One figure and its peer's. `required` bounds `ratio`, or `ours` if it has a unit, as they are recorded."""

    name: str
    unit: str
    ours: float
    peer_name: str = ""
    peer: float | None = None
    ratio: float | None = None
    required: str = ""
    verdict: str = ""


def faster(name: str, ours_seconds: float, peer_name: str, peer_seconds: float, at_least: float | None = None) -> Row:
    """Two times in seconds, recorded in microseconds; the ratio is our speed-up."""
    ratio = peer_seconds / ours_seconds
    required, verdict = ("", "") if at_least is None else (f">= {at_least:g}", _verdict(_rounded(ratio) >= at_least))
    return Row(name, "us", ours_seconds * 1e6, peer_name, peer_seconds * 1e6, ratio, required, verdict)


def at_most(
    name: str,
    unit: str,
    ours: float,
    limit: float,
    peer_name: str = "",
    peer: float | None = None,
    *,
    scale: bool = False,
) -> Row:
    """A figure that must not exceed a limit; with `scale` the ratio of ours to the peer's must not."""
    ratio = None if peer is None else ours / peer
    bounded, of = (ratio, "") if scale and ratio is not None else (ours, f" {unit}")
    return Row(name, unit, ours, peer_name, peer, ratio, f"<= {limit:g}{of}", _verdict(_rounded(bounded) <= limit))


def at_least(
    name: str, unit: str, ours: float, peer_name: str, peer: float, share: float, *, required: bool = True
) -> Row:
    """A rate that must reach a share of the requested one."""
    ratio = ours / peer
    bound, verdict = (f">= {share:g}", _verdict(_rounded(ratio) >= share)) if required else ("", "")
    return Row(name, unit, ours, peer_name, peer, ratio, bound, verdict)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "MISSED"


_COLD_CALLS = 2


def interleave(
    contestants: Mapping[str, Callable[[], object]], repeats: int = 9, repeat_seconds: float = 0.1
) -> dict[str, float]:
    """Median seconds per call of each; they take turns (A B A B ...), so that a disturbance affects all of them.

    One turn calls a contestant for about `repeat_seconds`. The first turn, which also sets the number of calls, is a
    warm-up and does not count.
    """
    calls = {name: _calibrate(call, repeat_seconds) for name, call in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, call in contestants.items():
                begin = perf_counter()
                for _ in range(calls[name]):
                    call()
                times[name].append((perf_counter() - begin) / calls[name])
    finally:
        gc.enable()
    return {name: statistics.median(values) for name, values in times.items()}


def _calibrate(call: Callable[[], object], seconds: float) -> int:
    for _ in range(_COLD_CALLS):  # which compile, or make what later calls use
        call()
    begin = perf_counter()
    calls = 0
    while perf_counter() - begin < seconds:
        call()
        calls += 1
    return calls


def take_turns(contestants: Mapping[str, Callable[[], float]], repeats: int = 9) -> dict[str, float]:
    """Like interleave(), for contestants that measure themselves: each call is a turn and returns seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, call in contestants.items():
            measured = call()
            if turn > 0:  # the first is a warm-up
                seconds[name].append(measured)
    return {name: statistics.median(values) for name, values in seconds.items()}


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def require(*modules: str) -> None:
    """Ends the program with one line and status 2 if a module is not installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        print(f"benchmarks: {', '.join(missing)} not installed; pip install -c constraints.txt '.[all,bench]'")
        sys.exit(2)


def warn_if_busy(seconds: float = 2.0, share: float = 0.1) -> None:
    """Warns if other processes use the machine now: they may slow one contestant more than another."""
    begin, busy = perf_counter(), _busy_seconds()
    sleep(seconds)
    cores = (_busy_seconds() - busy) / (perf_counter() - begin)
    if cores > share * (os.cpu_count() or 1):
        print(f"benchmarks: WARNING: others keep {cores:.1f} cores busy; these figures and ratios say little")


def _busy_seconds() -> float:
    """Busy core seconds of this machine."""
    user, nice, system, _, _, interrupt, soft, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")


def origin() -> dict[str, Any]:
    """The origin of a figure that is measured from now on: command, commit, date, machine."""
    return asdict(Origin.here(_command(), Path(__file__).parent))


@functools.cache
def _begun() -> dict[str, Any]:
    """The origin of this program, which run() takes at its begin: a commit during the measurement is none of it."""
    return origin()


def _command() -> str:
    return " ".join([_program(), *map(shlex.quote, sys.argv[1:])])


def _program() -> str:
    """The command that started this program, without its arguments."""
    path = Path(sys.argv[0])
    module = path.parent.name if path.stem == "__main__" else path.stem
    return "python -m benchmarks" + ("" if module == "benchmarks" else f".{module}")


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark's arguments; without options, it still has --help and refuses what is wrong."""
    formatter = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog=_program(), description=description, formatter_class=formatter)


def run(main: Callable[[], int]) -> NoReturn:
    """Ends the program with the status that main() returns: 2 if it raises an error, 130 if it is interrupted."""
    _begun()
    try:
        status = main()
    except HeadraceError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        status = 130
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def positive_number(text: str) -> float:
    """A finite number above 0, for argparse."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return value


class Rows:
    """Records of a measurement, each with its origin; results/<name>.csv is replaced when the block ends normally.

    Until then, and after an error or an interrupt, they are in results/<name>.partial.csv. With `key`, the columns that
    tell rows apart, earlier rows that were not measured again stay as they are.
    """

    def __init__(self, name: str, key: Sequence[str] = ()) -> None:
        self.records: list[dict[str, Any]] = []
        self.path = RESULTS / f"{name}.csv"
        self._partial = RESULTS / f"{name}.partial.csv"
        self._key = key
        self._origin = origin()  # of now: a commit during the measurement is none of it

    def __enter__(self) -> Self:
        make_folder(RESULTS)
        return self

    def add(self, record: Mapping[str, Any]) -> None:
        """Adds a record, to the file too."""
        self.records.append(dict(record))
        write_rows(self._partial, self._rows())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.records:
            return
        if kind is not None:
            print(f"benchmarks: what was measured is in {self._partial}", file=sys.stderr)
            return
        write_rows(self.path, self._with_earlier() if self._key else self._rows())
        self._partial.unlink(missing_ok=True)

    def _rows(self) -> list[dict[str, Any]]:
        return [record | self._origin for record in self.records]

    def _with_earlier(self) -> list[dict[str, Any]]:
        """The rows after those that were not measured again; columns may have come or gone."""
        rows = self._rows()
        measured = {self._place(row) for row in rows}
        kept = [row for row in read_csv(self.path) if self._place(row) not in measured]
        columns = dict.fromkeys((name for row in [*rows, *kept] for name in row), "")
        return [columns | row for row in [*kept, *rows]]

    def _place(self, row: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(str(row.get(name, "")) for name in self._key)


def write_csv(name: str, records: Iterable[Mapping[str, Any]]) -> Path:
    """Writes records, each with the origin of this program, to results/<name>.csv; returns the path."""
    source = _begun()
    make_folder(RESULTS)
    path = RESULTS / f"{name}.csv"
    write_rows(path, [{**record, **source} for record in records])
    return path


def report(name: str, rows: Sequence[Row]) -> int:
    """Prints the rows and writes results/<name>.csv; returns exit status 1 if a requirement is missed, else 0."""
    table = Table(title=name)
    for column in ("", "unit", "headrace", "peer", "", "ratio", "required", ""):
        table.add_column(column, justify="right" if column in ("headrace", "ratio") else "left")
    for row in rows:
        style = {"holds": "green", "MISSED": "bold red"}.get(row.verdict)
        cells = [row.name, row.unit, _figure(row.ours), _figure(row.peer), row.peer_name, _figure(row.ratio)]
        table.add_row(*cells, row.required, row.verdict, style=style)
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    path = write_csv(name, [{field: _rounded(value) for field, value in row._asdict().items()} for row in rows])
    console.print(f"written to {path.relative_to(_ROOT)}", highlight=False)
    return int(any(row.verdict == "MISSED" for row in rows))


def _rounded(value: Any) -> Any:
    """A number with four significant digits, since more would be noise; anything else unchanged."""
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
