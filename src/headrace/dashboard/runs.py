"""What the page shows of the runs of a folder."""

import os
import stat
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from headrace.dashboard.records import Record, RecordFollower, last_records, open_regular, read_mapping
from headrace.dashboard.series import Series
from headrace.report.progress import ACTOR_TIMES, LEARNER_TIMES
from headrace.servers import shown

__all__ = ["COLUMNS", "RunView", "RunsFolder"]

COLUMNS = (
    "seconds",
    "environment_steps",
    "mean_return",
    "near_greedy_return",
    "steps_per_second",
    "learner_steps_per_second",
    "samples_per_insert",
    "staleness",
    "loss",
    "replay_size",
    *(f"actor_times.{name}" for name in ACTOR_TIMES),
    *(f"learner_times.{name}" for name in LEARNER_TIMES),
)
"""Numbers of the progress records that are shown over time; a dot reaches into a mapping."""

_DEPTH = 3
_SCAN_SECONDS = 1.0
_READ_SECONDS = 0.5
_SILENT_SECONDS = 30.0
_MOST_EVALUATIONS = 1_000
_MOST_EVENTS = 200
_EVENTS = ("exit", "place", "resume", "server-restart", "precision")
_MOST_LOCK_BYTES = 64
_VIDEOS = (".mp4", ".gif")


class RunView:
    """One run as the page shows it in full. One thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._follower = RecordFollower(path / "metrics.jsonl")
        self._series = Series(COLUMNS)
        self._due = 0.0
        self.epoch = 0
        """Increases whenever rows that were read before are no longer true."""
        self._clear()

    def _clear(self) -> None:
        self._series.clear()
        self._now: Record = {}
        self._workers: Record = {}
        self._quantization: Record = {}
        self._evaluations: list[Record] = []
        self._events: list[Record] = []
        self._places: dict[str, str] = {}
        self._deaths: Counter[str] = Counter()

    def read(self) -> None:
        """Reads new records, at most twice a second."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _READ_SECONDS
        restarted, records = self._follower.read()
        if restarted:
            self.epoch += 1
            self._clear()
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        kind, seconds = record["kind"], _number(record.get("seconds"))
        if seconds is None:
            return
        if kind == "progress":
            self._now = record
            self._series.add([_number(_reach(record, name)) for name in COLUMNS])
        elif kind == "evaluation":
            self._evaluations = [*self._evaluations[-_MOST_EVALUATIONS + 1 :], record]
        elif kind == "workers":
            self._workers = record
        elif kind == "quantization":
            self._quantization = record
        elif kind in _EVENTS:
            self._events = [*self._events[-_MOST_EVENTS + 1 :], record]
        if kind == "resume":
            self._series.cut(seconds)
            self._evaluations = [old for old in self._evaluations if old["seconds"] <= seconds]
            self._places.clear()
            self.epoch += 1
        elif kind == "place":
            self._places[str(record.get("role"))] = str(record.get("place"))
        elif kind == "exit":
            self._deaths[str(record.get("role"))] += 1
            self._places.pop(str(record.get("role")), None)

    @property
    def position(self) -> tuple[int, int]:
        """The epoch and the number of rows, for the next call of series()."""
        return self.epoch, self._series.total

    def series(self, position: tuple[int, int] | None) -> tuple[bool, Mapping[str, list[float | None]]]:
        """Whether these columns replace earlier ones, and the rows since a position, or all rows, thinned."""
        epoch, total = position or (-1, 0)
        rows = self._series.since(total) if epoch == self.epoch else None
        return rows is None, self._series.transpose(self._series.rows() if rows is None else rows)

    def state(self) -> Record:
        """Everything else that the page shows of the run."""
        summary = read_mapping(self.path / "summary.json")
        video = _newest_video(self.path)
        return {
            "status": _status(self.path, summary),
            "now": self._newest(),
            "summary": summary,
            "evaluations": self._evaluations,
            "best_evaluation": self._best_evaluation(),
            "events": self._events,
            "processes": self._processes(),
            "hosts": dict(Counter(self._places.values())),
            "workers": self._workers,
            "quantization": self._quantization,
            "refused_lines": self._follower.refused,
            "video": None if video is None else {"name": video[1].name, "time": int(video[0])},
        }

    def _newest(self) -> Record:
        """The newest progress record, also while what a long run wrote before is still to be read."""
        if not self._follower.behind:
            return self._now
        return last_records(self.path / "metrics.jsonl", ["progress"]).get("progress", self._now)

    def _best_evaluation(self) -> float | None:
        """The highest mean return; progress records have no evaluation that came after them."""
        return _greatest(self._now.get("best_evaluation"), *(each.get("mean_return") for each in self._evaluations))

    def config(self) -> Record:
        """The run's settings, without the password that a server's address may have."""
        found = read_mapping(self.path / "config.json") or {}
        server = found.get("server")
        if isinstance(server, Mapping) and isinstance(server.get("address"), str):
            return {**found, "server": {**server, "address": shown(server["address"])}}
        return found

    def _processes(self) -> list[Record]:
        """Roles that left a log, have a place or died, with the number of their deaths."""
        logs = [name for name in _names(self.path / "logs") if name.endswith(".log")]
        names = {*(Path(name).stem.replace("-", " ") for name in logs), *self._places, *self._deaths}
        return [
            {"role": name, "place": self._places.get(name), "deaths": self._deaths[name]}
            for name in sorted(names, key=_natural)
        ]


class RunsFolder:
    """The runs in a folder, down to three levels below it; their names are their paths relative to it.

    Symbolic links are not followed. Thread-safe.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = Lock()
        self._due = 0.0
        self._cards: dict[str, tuple[object, Record]] = {}
        self._views: dict[str, RunView] = {}

    def cards(self) -> list[Record]:
        """One line about each run, the newest first; the folder is read at most once a second."""
        with self._lock:
            self._scan()
            return sorted((card for _, card in self._cards.values()), key=lambda card: (-card["began"], card["name"]))

    def update(self, name: str, position: tuple[int, int] | None) -> tuple[tuple[int, int], Record] | None:
        """What changed of a run since a position (None: everything), and its new position; None without this run."""
        with self._lock:
            view = self._view(name)
            if view is None:
                return None
            view.read()
            reset, series = view.series(position)
            message = {"name": name, "reset": reset, "series": series, "state": view.state()}
            if reset:
                message["config"] = view.config()
            return view.position, message

    def video(self, name: str) -> BinaryIO | None:
        """The newest video in the directory of a run, opened for reading; None if there is none."""
        with self._lock:
            view = self._view(name)
            newest = None if view is None else _newest_video(view.path)
        try:
            return None if newest is None else open_regular(newest[1])
        except OSError:  # it was removed or replaced meanwhile
            return None

    def _view(self, name: str) -> RunView | None:
        """The view of a run that the last scan found; a name from outside is never made into a path."""
        self._scan()
        if name not in self._cards:
            self._views.pop(name, None)
            return None
        if name not in self._views:
            self._views[name] = RunView(self.root / name)
        return self._views[name]

    def _scan(self) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _SCAN_SECONDS
        cards: dict[str, tuple[object, Record]] = {}
        for path in _run_directories(self.root, _DEPTH):
            name = path.relative_to(self.root).as_posix()
            stamp = _stamp(path)
            before = self._cards.get(name)
            card = _card(path, name) if before is None or before[0] != stamp else before[1]
            summary = {"stopped_by": card["stopped_by"]} if card["stopped_by"] else None
            cards[name] = (stamp, card | {"status": _status(path, summary)})
        self._cards = cards
        self._views = {name: view for name, view in self._views.items() if name in cards}


def _run_directories(folder: Path, depth: int) -> list[Path]:
    """Directories with a config.json at most `depth` levels below the folder, or the folder itself."""
    if _is_regular(folder / "config.json"):
        return [folder]
    if depth == 0:
        return []
    try:
        with os.scandir(folder) as entries:
            inner = [
                Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False) and _is_text(entry.name)
            ]
    except OSError:
        return []
    return [path for each in inner for path in _run_directories(each, depth - 1)]


def _names(folder: Path) -> list[str]:
    """Names in a folder; none if it is a symbolic link or can't be read."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def _is_text(name: str) -> bool:
    """Whether a name in a folder is UTF-8; other bytes can't be in a request."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_regular(path: Path) -> bool:
    """Whether it is a file, and not a link to one; False for one in a directory that can't be searched."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _stamp(path: Path) -> list[tuple[int, int, int] | None]:
    """Changes whenever what a card shows may have changed."""
    stamps: list[tuple[int, int, int] | None] = []
    for name in ("config.json", "metrics.jsonl", "summary.json"):
        try:
            status = (path / name).lstat()
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
        except OSError:
            stamps.append(None)
    return stamps


def _card(path: Path, name: str) -> Record:
    """What the list shows of a run."""
    config = read_mapping(path / "config.json") or {}
    summary = read_mapping(path / "summary.json") or {}
    progress = last_records(path / "metrics.jsonl", ["progress"]).get("progress", {})
    try:
        began = (path / "config.json").lstat().st_mtime
    except OSError:
        began = 0.0
    return {
        "name": name,
        "environment": str(config.get("environment", "?")),
        "algorithm": str(_reach(config, "algorithm.name") or "?"),
        "topology": str(_reach(config, "topology.name") or "?"),
        "seed": _number(config.get("seed")),
        "began": began,
        "steps": _number(progress.get("environment_steps", summary.get("environment_steps"))),
        "seconds": _number(progress.get("seconds", summary.get("wall_seconds"))),
        "mean_return": _number(progress.get("mean_return")),
        "evaluation_return": _number(summary.get("mean_return", progress.get("evaluation_return"))),
        "best_evaluation": _greatest(progress.get("best_evaluation"), summary.get("mean_return")),
        "stopped_by": str(summary["stopped_by"]) if summary.get("stopped_by") else None,
    }


def _status(path: Path, summary: Mapping[str, Any] | None) -> str:
    """running, finished, or ended (without a summary).

    A run on this machine holds the lock of its directory, which is not tried, only looked up. One on another machine
    that shares the folder counts as running while it writes records.
    """
    if _is_locked(path / ".lock"):
        return "running"
    if summary is not None:
        return "finished"
    try:
        silent = time.time() - (path / "metrics.jsonl").lstat().st_mtime
    except OSError:
        return "ended"
    return "running" if silent < _SILENT_SECONDS else "ended"


def _is_locked(path: Path) -> bool:
    """Whether the process whose id the lock file holds has the lock, according to the kernel's list."""
    try:
        with open_regular(path) as file:
            inode, holder = os.fstat(file.fileno()).st_ino, file.read(_MOST_LOCK_BYTES).decode().strip()
        locks = Path("/proc/locks").read_text()
    except (OSError, ValueError):
        return False
    fields = [line.split() for line in locks.splitlines() if " FLOCK " in line and "->" not in line]
    return any(each[4] == holder and each[5].rsplit(":", 1)[-1] == str(inode) for each in fields if len(each) > 5)


def _newest_video(path: Path) -> tuple[float, Path] | None:
    """The time and the path of the newest video in a folder."""
    try:
        with os.scandir(path) as entries:
            videos = [
                (entry.stat(follow_symlinks=False).st_mtime, Path(entry.path))
                for entry in entries
                if entry.name.endswith(_VIDEOS) and not entry.name.startswith(".")
                if entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return None
    return max(videos, default=None)


def _reach(record: Mapping[str, Any], key: str) -> Any:
    value: Any = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _number(value: Any) -> float | None:
    """The value if it is a finite number that a float can hold; anything else, which no run writes, is None."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and abs(value) <= 1e308 else None


def _greatest(*values: Any) -> float | None:
    return max((number for number in map(_number, values) if number is not None), default=None)


def _natural(name: str) -> tuple[str, int]:
    """Sorts "actor 2" before "actor 10"."""
    kind, _, index = name.rpartition(" ")
    return (kind, int(index)) if index.isdecimal() and len(index) < 20 else (name, -1)
