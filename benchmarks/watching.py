"""What it costs a run to be watched: the learner's rate with a dashboard and an open page, and without.

Runs with and without take turns. One pair has `headrace dashboard` read the run's directory; in the other, run and
dashboard use a server. The open page is a client that reads the stream of server-sent events and draws nothing.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Row, at_least, make_parser, positive, positive_number, report, require, run, warn_if_busy
from benchmarks.standing import standing_server

_ENVIRONMENT = "LunarLander-v3"
_WARM_SECONDS = 5.0
_LEAST_SECONDS = 10.0  # of a run: there is a record of its progress per second, and two warm ones are needed
_SHARE = 0.98
_SAMPLES_PER_STEP = 32  # twice the preset's: the learner is the bottleneck


class Watched(NamedTuple):
    """What a dashboard cost while a run went on."""

    cpu_share: float
    """Processor time of its process per second."""
    bytes_per_second: float
    """Of the stream to the page."""


class _Page(threading.Thread):
    """Reads the stream of one page until the dashboard ends."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._connection = HTTPConnection("127.0.0.1", port)
        self.port = port
        self.received_bytes = 0

    def run(self) -> None:
        self._connection.request("GET", "/api/events" + self._query())
        stream = self._connection.getresponse()
        while line := stream.readline():
            self.received_bytes += len(line)

    def _query(self) -> str:
        """Of a folder, the page shows the run."""
        return "?run=run" if b"runs.js" in fetch(self.port, "/") else ""


def fetch(port: int, path: str) -> bytes:
    """The body of an answer of the dashboard."""
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    return connection.getresponse().read()


def page_bytes(port: int) -> int:
    """Bytes of a page and of all files that it loads."""
    names, found = ["/"], {}
    while names:
        name = names.pop()
        found[name] = fetch(port, name)
        if name.endswith((".css", ".svg", "min.js")):
            continue
        text = found[name].decode()
        inner = [
            *re.findall(r'"(/assets/[^"]+)"', text),
            *(f"/assets/{each}" for each in re.findall(r'"\./(.+?)"', text)),
        ]
        names += [each for each in inner if each not in found and each not in names]
    return sum(map(len, found.values()))


@contextmanager
def dashboard(subject: str) -> Iterator[tuple[subprocess.Popen[str], _Page]]:
    """A context with `headrace dashboard` and a page that is open."""
    command = [sys.executable, "-m", "headrace", "dashboard", subject, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r":(\d+)/$", line.strip())
            if found is None:
                raise RuntimeError(f"headrace dashboard printed {line!r}; an address was expected")
            page = _Page(int(found[1]))
            page.start()
            yield process, page
        finally:
            process.terminate()


def train(folder: Path, seconds: float, seed: int, server: str | None, name: str) -> float:
    """Trains in folder/run, on a server as the run of this name.

    Returns the learner's updates per second after the first seconds.
    """
    run = folder / "run"
    command = [sys.executable, "-m", "headrace", "train", _ENVIRONMENT, "--quiet", "--run-dir", str(run)]
    command += ["--seed", str(seed), "--time-limit", f"{seconds}", "--samples-per-step", str(_SAMPLES_PER_STEP)]
    command += ["--evaluation-period-seconds", "1e6", "--final-evaluation-episodes", "0"]
    command += ["--server", server, "--run", name] if server is not None else []
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    warm = [each for each in records if each["kind"] == "progress" and each["seconds"] >= _WARM_SECONDS]
    first, last = warm[0], warm[-1]
    return float((last["learner_steps"] - first["learner_steps"]) / (last["seconds"] - first["seconds"]))


def watched_run(seconds: float, seed: int, server: str | None, name: str) -> tuple[float, Watched, int]:
    """The same with a dashboard; also what that cost, and the bytes of its page."""
    with tempfile.TemporaryDirectory() as folder, dashboard(server or folder) as (process, page):
        size = page_bytes(page.port)
        cpu, received = _cpu_seconds(process.pid), page.received_bytes
        rate = train(Path(folder), seconds, seed, server, name)
        cost = Watched(
            (_cpu_seconds(process.pid) - cpu) / seconds,
            (page.received_bytes - received) / seconds,
        )
    return rate, cost, size


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(subject: str, repeats: int, seconds: float) -> list[Row]:
    """The rows about the dashboard of a folder, or of a server."""
    without, watched, costs, size = [], [], [], 0
    with ExitStack() as stack:
        server = stack.enter_context(standing_server())["unix"] if subject == "server" else None
        for seed in range(repeats):
            for kind in ("alone", "watched") if seed % 2 == 0 else ("watched", "alone"):  # each comes first as often
                run = f"{kind}{seed}"
                if kind == "alone":
                    with tempfile.TemporaryDirectory() as folder:
                        without.append(train(Path(folder), seconds, seed, server, run))
                else:
                    rate, cost, size = watched_run(seconds, seed, server, run)
                    watched.append(rate)
                    costs.append(cost)
            print(f"{subject}, seed {seed}: {watched[-1]:.0f} updates/s watched, {without[-1]:.0f} not", flush=True)
    median = statistics.median
    return [
        at_least(
            f"learner, watched by the dashboard of a {subject}", "updates/s", median(watched),
            "not watched", median(without), _SHARE,
        ),
        Row(f"dashboard of a {subject}", "% of a core", 100 * median(each.cpu_share for each in costs)),
        Row(f"stream to a page about a {subject}", "B/s", median(each.bytes_per_second for each in costs)),
        Row(f"page about a {subject} with its files", "B", size),
    ]  # fmt: skip


def main() -> int:
    """Measures, prints and writes results/watching_<subject>.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=positive, default=5, help="pairs of runs")
    parser.add_argument("--seconds", type=positive_number, default=40.0, help="training time of a run")
    parser.add_argument("--subjects", nargs="+", choices=("folder", "server"), default=["folder", "server"])
    arguments = parser.parse_args()
    if arguments.seconds < _LEAST_SECONDS:
        parser.error(f"--seconds is {arguments.seconds:g}; it must be at least {_LEAST_SECONDS:g}")
    require("headrace", "Box2D", "uvicorn", "starlette")
    warn_if_busy()
    return max(
        report(f"watching_{subject}", measure(subject, arguments.repeats, arguments.seconds))
        for subject in arguments.subjects
    )


if __name__ == "__main__":
    run(main)
