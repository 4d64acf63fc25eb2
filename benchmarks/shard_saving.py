"""What it costs a server to save its shards, and runs whose server is killed.

`rate`: updates per second of 8,480,000 parameters with Adam, each a push and a fetch, by one and by two workers. A
server with a data directory, which saves every second, and one without take turns in pairs. `kills`: runs of the
topology parameter-server whose server is killed with SIGKILL at a random step and restarted on its data, each next to
an undisturbed run of the same seed.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Rows, make_parser, positive, positive_number, require, run, warn_if_busy, write_csv
from benchmarks.outcome import FRESH_SEED, evaluate_run
from benchmarks.standing import listening_on
from headrace._native import Client, OptimizerOptions, ShardedModel
from headrace.environments import describe
from headrace.report import RunDirectory

_ROOT = Path(__file__).parent.parent
_REQUIRED = 0.97
"""Least ratio of the update rates, saving to not saving."""
_OPTIMIZER = OptimizerOptions("adam", learning_rate=1e-6)
_POLL_SECONDS = 0.02
_RUN_SECONDS = 600.0
"""After which a run that has not ended counts as one that did not continue."""


class _Server:
    """`headrace serve` on a Unix socket, which can be killed and restarted."""

    def __init__(self, folder: Path, data: Path | None) -> None:
        self._words = ["--quiet", "--listen", f"unix:{folder}/socket", *(["--data", str(data)] if data else [])]
        self.start()

    def start(self) -> None:
        """Waits until it listens."""
        command = [sys.executable, "-m", "headrace", "serve", *self._words]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=_ROOT
        )
        assert self._process.stdout is not None
        self.address = listening_on(self._process.stdout.readline())

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.communicate()

    def shards(self) -> dict[str, Any]:
        """Statistics of its shards."""
        client = Client(self.address)
        shards: dict[str, Any] = client.stats()["shards"]
        client.close()
        return shards


@contextmanager
def _serving(folder: Path, data: Path | None) -> Iterator[_Server]:
    folder.mkdir()
    server = _Server(folder, data)
    try:
        yield server
    finally:
        server.kill()


class _Workers:
    """Workers that push to one model on a server and fetch it, each in a thread, which computes outside Python."""

    def __init__(self, server: _Server, count: int, workers: int) -> None:
        self._server = server
        name = f"rate-{workers}"
        self._models = [ShardedModel([server.address], name, count) for _ in range(workers)]
        self._parameters = [np.zeros(count, np.float32) for _ in range(workers)]
        self._gradient = np.full(count, 1e-3, np.float32)
        for i, model in enumerate(self._models):
            model.open(_OPTIMIZER, self._parameters[i] if i == 0 else None, fresh=i == 0)
            model.fetch_into(self._parameters[i])

    def rate(self, seconds: float) -> float:
        """Updates per second of all of them, for as long."""
        counts = [0] * len(self._models)
        begin = time.perf_counter()

        def work(index: int) -> None:
            while time.perf_counter() - begin < seconds:
                self._update(index)
                counts[index] += 1

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(counts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / (time.perf_counter() - begin)

    def settle(self) -> None:
        """Waits until everything is saved, so that no save falls into the other server's turn."""
        while any(shard["saved_version"] < shard["version"] for shard in self._server.shards().values()):
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Closes the connections."""
        for model in self._models:
            model.close()

    def _update(self, index: int) -> None:
        self._models[index].push(self._gradient)
        self._models[index].fetch_into(self._parameters[index])


def _measure_rates(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for workers in (1, 2):
            here = Path(folder) / str(workers)
            here.mkdir()
            with _serving(here / "saving", here / "data") as saving, _serving(here / "memory", None) as memory:
                with_saves, without = (_Workers(each, arguments.parameters, workers) for each in (saving, memory))
                for server in (without, with_saves):
                    server.rate(arguments.turn_seconds)  # a warm-up
                for pair in range(arguments.pairs):
                    with_saves.settle()
                    alone = without.rate(arguments.turn_seconds)
                    saved = with_saves.rate(arguments.turn_seconds)
                    records.append(
                        {
                            "parameters": arguments.parameters,
                            "workers": workers,
                            "pair": pair,
                            "turn_seconds": arguments.turn_seconds,
                            "updates_per_second_without": round(alone, 2),
                            "updates_per_second_saving": round(saved, 2),
                            "ratio": round(saved / alone, 4),
                        }
                    )
                    print(records[-1], flush=True)
                with_saves.close()
                without.close()
    return records


def _run(arguments: argparse.Namespace, seed: int, *, killed: bool) -> dict[str, Any]:
    """One run as a record."""
    kill_at = random.Random(seed).uniform(0.2, 0.8) * arguments.steps
    lost = restored = away = None
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        with _serving(folder / "server", folder / "data") as server:
            words = [
                *(sys.executable, "-m", "headrace", "train", arguments.environment, "--quiet"),
                *("--run-dir", folder / "run", "--server", server.address, "--seed", seed),
                *("--topology", "parameter-server", "--workers", arguments.workers, "--steps", arguments.steps),
            ]
            with subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, cwd=_ROOT) as training:
                if killed and _await_steps(training, folder / "run", kill_at):
                    begin = time.monotonic()
                    server.kill()
                    server.start()
                    away = time.monotonic() - begin
                    shards = server.shards().values()
                    lost = max((shard["lost"] for shard in shards), default=None)
                    restored = max((shard["version"] for shard in shards), default=None)
                try:
                    training.wait(_RUN_SECONDS)
                except subprocess.TimeoutExpired:
                    training.kill()
            summary = (RunDirectory.open(folder / "run").read_summary() if (folder / "run").exists() else None) or {}
            greedy = evaluate_run(folder / "run", FRESH_SEED + seed) if summary else None
    workers = summary.get("workers") or {}
    updates = summary.get("learner_steps", 0)
    reached = training.returncode == 0 and summary.get("stopped_by") == "steps"
    record = {
        "environment": arguments.environment,
        "seed": seed,
        "killed": killed,
        "killed_at_steps": int(kill_at) if away is not None else None,
        "away_seconds": None if away is None else round(away, 2),
        "updates_lost": workers.get("updates_lost"),
        "updates_lost_at_restart": lost,
        "continued": reached and (restored is None or updates > restored),
        "updates": updates,
        "environment_steps": summary.get("environment_steps"),
        "wall_seconds": None if not summary else round(summary["wall_seconds"], 1),
        "greedy_mean": None if greedy is None else round(greedy, 1),
        "workers": arguments.workers,
    }
    print(record, flush=True)
    return record


def _await_steps(training: subprocess.Popen[bytes], run: Path, steps: float) -> bool:
    """Waits until the run has made these environment steps and learned; False if it ended before."""
    while training.poll() is None:
        if (run / "metrics.jsonl").exists():
            for record in RunDirectory.open(run).read_metrics():
                if record["kind"] == "progress" and record["learner_steps"] and record["environment_steps"] >= steps:
                    return True
        time.sleep(_POLL_SECONDS)
    return False


def _report_rates(records: list[dict[str, Any]]) -> bool:
    """Prints the median of each number of workers; returns whether all reach what is required."""
    table = Table(title=f"updates per second, {records[0]['parameters']:,} parameters with Adam")
    for column in ("workers", "without", "saving", "median ratio of pairs", "required"):
        table.add_column(column)
    holds = True
    for workers in sorted({record["workers"] for record in records}):
        of = [record for record in records if record["workers"] == workers]
        without, saving, ratio = (
            statistics.median(record[column] for record in of)
            for column in ("updates_per_second_without", "updates_per_second_saving", "ratio")
        )
        holds = holds and ratio >= _REQUIRED
        table.add_row(str(workers), f"{without:.1f}", f"{saving:.1f}", f"{ratio:.3f}", f">= {_REQUIRED}")
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return holds


def _report_kills(records: list[dict[str, Any]]) -> bool:
    """Prints what became of the runs; returns whether all continued to their end."""
    table = Table(title="runs with a parameter server")
    for column in ("server", "continued", "updates lost", "median greedy mean", "all"):
        table.add_column(column)
    for killed in (False, True):
        of = [record for record in records if record["killed"] == killed]
        scores = [record["greedy_mean"] for record in of if record["greedy_mean"] is not None]
        table.add_row(
            "killed" if killed else "undisturbed",
            f"{sum(record['continued'] for record in of)} of {len(of)}",
            ", ".join(str(record["updates_lost"]) for record in of),
            f"{statistics.median(scores):.1f}" if scores else "",
            ", ".join(map(str, scores)),
        )
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return all(record["continued"] for record in records)


def main() -> int:
    """Writes results/shard_saving_rate.csv and shard_saving_kills.csv; returns status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", choices=("rate", "kills"), help="one of the two parts")
    parser.add_argument("--folder", help="for the servers' data; a temporary directory of the system if not set")
    parser.add_argument("--parameters", type=positive, default=8_480_000)
    parser.add_argument("--pairs", type=positive, default=7, help="turns of each server, for each number of workers")
    parser.add_argument("--turn-seconds", type=positive_number, default=10.0)
    parser.add_argument("--environment", default="CartPole-v1")
    parser.add_argument("--steps", type=positive, default=60_000, help="environment steps of a run")
    parser.add_argument("--workers", type=positive, default=2)
    parser.add_argument("--rounds", type=positive, default=20, help="pairs of runs, each with its own seed")
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.first_seed < 0:
        parser.error(f"--first-seed is {arguments.first_seed}; it must be at least 0")
    require("headrace")
    describe(arguments.environment)
    warn_if_busy()
    holds = True
    if arguments.only != "kills":
        rates = _measure_rates(arguments)
        write_csv("shard_saving_rate", rates)
        holds = _report_rates(rates)
    if arguments.only != "rate":
        with Rows("shard_saving_kills", key=("environment", "seed", "killed")) as runs:
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.rounds):
                for killed in (False, True):
                    runs.add(_run(arguments, seed, killed=killed))
        holds = _report_kills(runs.records) and holds
    print("required: " + ("holds" if holds else "MISSED"))
    return int(not holds)


if __name__ == "__main__":
    run(main)
