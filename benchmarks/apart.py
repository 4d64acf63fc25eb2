"""LunarLander-v3 to 200 with separately started server, learner and actors, and with the server killed during a run.

Three variants take turns, seed by seed. `embedded` is `headrace train`. `apart` is `headrace serve` over TCP with a
token and a data directory, `headrace learner` and `headrace actor`. `killed` is the same, but after the learner has
updated its policy for a while, the server is killed with SIGKILL and restarted on its data and port.
"""

import argparse
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Rows, make_parser, positive, positive_number, require, run, warn_if_busy
from benchmarks.outcome import EVALUATION_PERIOD_SECONDS, FRESH_SEED, PERIODIC_EPISODES, evaluate_run
from benchmarks.standing import listening_on
from headrace._native import Client
from headrace.environments import describe
from headrace.report import RunDirectory
from headrace.servers import read_token
from headrace.settings import preset

_ROOT = Path(__file__).parent.parent
_VARIANTS = ("embedded", "apart", "killed")
_FOUND = 0.99  # of the transitions just before the kill: new chunks may replace the oldest
_END_SECONDS = 30.0
_POLL_SECONDS = 0.1

_Process = subprocess.Popen[str]


class _Kill(NamedTuple):
    """The outcome of killing the server."""

    training_seconds: float
    held: int
    recovered: int
    away_seconds: float


class _Job:
    """One run: its commands in separate processes, and the exit codes of those that have ended."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, seed: int) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.token_file = folder / "token"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(secrets.token_hex(32))
        self.kill_seconds: float = arguments.kill_after
        self.codes: list[str] = []
        self._running: dict[str, _Process] = {}
        self._deadline = time.monotonic() + 2 * arguments.time_limit + 60  # evaluations are off the training clock
        self.training = [
            *(arguments.environment, "--run-dir", self.run, "--quiet"),
            *("--until-score", arguments.score, "--time-limit", arguments.time_limit, "--seed", seed),
            *("--evaluation-period-seconds", EVALUATION_PERIOD_SECONDS, "--evaluation-episodes", PERIODIC_EPISODES),
        ]

    def start(self, name: str, *words: object) -> _Process:
        """Starts a command of headrace; the output is read only for `serve`."""
        command = [sys.executable, "-m", "headrace", name, *map(str, words)]
        output = subprocess.PIPE if name == "serve" else subprocess.DEVNULL
        self._running[name] = subprocess.Popen(
            command,
            stdout=output,
            text=True,
            cwd=_ROOT,
            start_new_session=True,  # Ctrl-C must leave them to close()
        )
        return self._running[name]

    def serve(self, address: str) -> str:
        """Starts a server; returns its address."""
        words = ("--listen", address, "--data", self.folder / "data", "--token-file", self.token_file, "--quiet")
        server = self.start("serve", *words)
        assert server.stdout is not None
        return listening_on(server.stdout.readline())

    def stats(self, address: str) -> dict[str, Any]:
        """Statistics of the only table on the server."""
        client = Client(address, token=read_token(self.token_file))
        (table,) = client.stats()["tables"].values()
        client.close()
        return dict(table)

    def wait(self, name: str) -> None:
        """Waits until a command ends by itself or the run has taken far too long."""
        self.end(name, max(self._deadline - time.monotonic(), 0.0))

    def end(self, name: str, seconds: float) -> None:
        """Gives a command this long to end, then kills it; records its exit code."""
        process = self._running[name]
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        self.codes.append(f"{name} {process.wait()}")
        del self._running[name]  # not before: close() ends what an interrupt leaves

    def terminate(self, name: str) -> None:
        """Asks a command to end."""
        self._running[name].terminate()
        self.end(name, _END_SECONDS)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._running[name].kill()
        self.end(name, _END_SECONDS)

    def updated_for(self, seconds: float) -> float | None:
        """Waits until the learner has trained for this long; returns its training clock, None if it ended before."""
        learner = self._running["learner"]
        while learner.poll() is None and time.monotonic() < self._deadline:
            if (self.run / "metrics.jsonl").exists():
                for record in RunDirectory.open(self.run).read_metrics():
                    if record["kind"] == "progress" and record["learner_steps"] and record["seconds"] >= seconds:
                        return float(record["seconds"])
            time.sleep(_POLL_SECONDS)
        return None

    def close(self) -> None:
        """Ends all remaining processes, the last one first: the others need the server, and all of them the folder."""
        for name in reversed(list(self._running)):
            self.terminate(name)


@contextmanager
def _job(arguments: argparse.Namespace, seed: int) -> Iterator[_Job]:
    with tempfile.TemporaryDirectory() as folder:
        job = _Job(Path(folder), arguments, seed)
        try:
            yield job
        finally:
            job.close()


def _train_apart(job: _Job, actors: int, *, killed: bool) -> _Kill | None:
    """Runs server, actors and learner until the learner ends; returns the outcome of the kill, if one was planned."""
    address = job.serve("tcp://127.0.0.1:0")
    place = ("--server", address, "--token-file", job.token_file)
    job.start("actor", *place, "--actors", actors, "--log-dir", job.folder / "actors")
    job.start("learner", *job.training, *place)
    kill = _kill(job, address) if killed else None
    job.wait("learner")
    job.end("actor", _END_SECONDS)
    job.terminate("serve")
    return kill


def _kill(job: _Job, address: str) -> _Kill | None:
    """Kills and restarts the server during the run; None if the run ended before."""
    at = job.updated_for(job.kill_seconds)
    if at is None:
        return None
    held = int(job.stats(address)["size"])
    begin = time.monotonic()
    job.kill("serve")
    job.serve(address)
    away = time.monotonic() - begin
    return _Kill(at, held, int(job.stats(address)["recovered"]), away)


def _run(variant: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One run as a record."""
    known = preset(arguments.environment)
    actors = known.topology("apex").actor_count(known.algorithm)
    kill = None
    with _job(arguments, seed) as job:
        begin = time.monotonic()
        if variant == "embedded":
            job.start("train", *job.training)
            job.wait("train")
        else:
            kill = _train_apart(job, actors, killed=variant == "killed")
        total = time.monotonic() - begin
        summary = (RunDirectory.open(job.run).read_summary() if job.run.exists() else None) or {}
        fresh = evaluate_run(job.run, FRESH_SEED + seed) if summary else None
        codes = ", ".join(job.codes)
    record = {
        "variant": variant,
        "environment": arguments.environment,
        "score": arguments.score,
        "seed": seed,
        "solved": bool(summary.get("solved")),
        "seconds_to_score": _round(summary.get("seconds_to_score")),
        "total_seconds": _round(total),
        "environment_steps": summary.get("environment_steps"),
        "mean_return": _round(summary.get("mean_return")),
        "fresh_mean": _round(fresh),
        "killed_at_seconds": _round(kill.training_seconds) if kill else None,
        "held_before_kill": kill.held if kill else None,
        "recovered": kill.recovered if kill else None,
        "away_seconds": _round(kill.away_seconds) if kill else None,
        "exit_codes": codes,
        "actors": actors,
        "time_limit": arguments.time_limit,
    }
    reached = f"{record['seconds_to_score']} s" if record["solved"] else f"not in {arguments.time_limit:g} s"
    found = f", {kill.recovered:,} of {kill.held:,} transitions found again" if kill else ""
    print(f"{variant}, seed {seed}: {reached}, fresh mean {record['fresh_mean']}{found}; {codes}", flush=True)
    return record


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _in_order(record: dict[str, Any]) -> bool:
    """Whether a run was solved, each process ended as expected, and a kill lost nothing that was acknowledged."""
    killed = record["variant"] == "killed"
    expected = {
        "embedded": "train 0",
        "apart": "learner 0, actor 0, serve 0",
        "killed": "serve -9, learner 0, actor 0, serve 0",
    }
    found = not killed or (bool(record["recovered"]) and record["recovered"] >= _FOUND * record["held_before_kill"])
    return record["solved"] and record["exit_codes"] == expected[record["variant"]] and found


def _summarize(records: list[dict[str, Any]]) -> int:
    """Prints the results of each variant; a run that misses the score counts as its time limit."""
    table = Table(title=f"seconds until {records[0]['environment']} averages {records[0]['score']:g}")
    for column in ("variant", "solved", "median", "all", "100 fresh episodes", "found after the kill"):
        table.add_column(column)
    for variant in _VARIANTS:
        runs = [record for record in records if record["variant"] == variant]
        seconds = [run["seconds_to_score"] if run["solved"] else run["time_limit"] for run in runs]
        times = ", ".join(
            f"{'' if run['solved'] else '>'}{run['seconds_to_score'] or run['time_limit']}" for run in runs
        )
        table.add_row(
            variant,
            f"{sum(run['solved'] for run in runs)} of {len(runs)}",
            f"{statistics.median(seconds):.1f}",
            times,
            ", ".join(str(run["fresh_mean"]) for run in runs),
            ", ".join(f"{run['recovered']:,} of {run['held_before_kill']:,}" for run in runs if run["recovered"]),
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    missed = [f"{record['variant']}, seed {record['seed']}" for record in records if not _in_order(record)]
    print(
        "required: every run solved, every process ended with 0, what was acknowledged found after the kill: "
        + (f"MISSED by {'; '.join(missed)}" if missed else "holds")
    )
    return int(bool(missed))


def main() -> int:
    """Runs every seed of every variant and writes results/apart.csv; returns status 1 if the requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--environment", default="LunarLander-v3")
    parser.add_argument("--score", type=float, default=200.0)
    parser.add_argument("--seeds", type=positive, default=3, help="seeds 0 .. N-1")
    parser.add_argument("--time-limit", type=positive_number, default=300.0, help="training seconds of each run")
    parser.add_argument(
        "--kill-after", type=positive_number, default=5.0, help="training seconds until the server is killed"
    )
    arguments = parser.parse_args()
    require("headrace", "Box2D")
    describe(arguments.environment)
    warn_if_busy()
    with Rows("apart") as rows:
        for seed in range(arguments.seeds):
            for variant in _VARIANTS:
                rows.add(_run(variant, arguments, seed))
    print(f"written to {rows.path.relative_to(_ROOT)}")
    return _summarize(rows.records)


if __name__ == "__main__":
    run(main)
