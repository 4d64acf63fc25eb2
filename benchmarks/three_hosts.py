"""CartPole-v1 to 475 on three hosts with Ray: undisturbed, with a link cut for 10 s, and with a host killed.

The hosts are network namespaces joined by a bridge: `head` with the learner, and two for actors or workers. Each of the
two has an own address, own processes, and neither the head's temporary files nor its run directories. Needs root, `ip`
and `unshare`.
"""

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import Rows, make_parser, positive, positive_number, require, run, warn_if_busy
from headrace.environments import describe

_ROOT = Path(__file__).parent.parent
_TAG = secrets.token_hex(3)
_BRIDGE = f"hr{_TAG}"
_HOSTS = tuple(f"{name}-{_TAG}" for name in ("head", "player1", "player2"))
_PORT = 6379
_POLL_SECONDS = 0.1
_JOIN_SECONDS = 60.0
_EVENTS = ("none", "cut", "kill")
_RESTART_SECONDS = 15.0  # allowed from the kill until every lost role runs elsewhere

_Process = subprocess.Popen[bytes]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def _address(host: str) -> str:
    return f"10.78.0.{10 + _HOSTS.index(host)}"


@contextlib.contextmanager
def _network() -> Iterator[None]:
    """Three namespaces on one bridge."""
    with contextlib.ExitStack() as ends:
        _ip("link", "add", _BRIDGE, "type", "bridge")
        ends.callback(_delete, "link", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        for host in _HOSTS:
            _ip("netns", "add", host)
            ends.callback(_delete, "netns", host)
            _ip("link", "add", _link(host), "type", "veth", "peer", "name", "eth0", "netns", host)
            ends.callback(_delete, "link", _link(host))
            _ip("link", "set", _link(host), "master", _BRIDGE, "up")
            _ip("-n", host, "address", "add", f"{_address(host)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "eth0", "up")
            _ip("-n", host, "link", "set", "lo", "up")
        yield


def _delete(kind: str, name: str) -> None:
    subprocess.run(["ip", kind, "delete", name], stderr=subprocess.DEVNULL, check=False)


def _link(host: str) -> str:
    return f"{_BRIDGE}-{_HOSTS.index(host)}"


class _Cluster:
    """A raylet on each host. A process namespace per host: with its first process, all end."""

    def __init__(self, folder: Path, cpus: int) -> None:
        self._cpus = cpus
        self._folder = folder
        self._environment = os.environ | {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(folder),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        self.hosts: dict[str, _Process] = {}
        self._home = folder / "home"  # Ray copies it to the other hosts
        self._home.mkdir()
        self._ray = str(Path(sys.executable).parent / "ray")
        if not Path(self._ray).exists():
            self._ray = f"{sys.executable} -m ray.scripts.scripts"

    def start(self, host: str) -> None:
        """Starts a host's raylet; on the head also Ray's control service, and no CPUs for roles."""
        common = f"--node-ip-address={_address(host)} --block --disable-usage-stats"
        if host == _HOSTS[0]:
            script = f"exec {self._ray} start --head --port={_PORT} --num-cpus=0 --include-dashboard=false {common}"
        else:
            private = "mount -t tmpfs tmpfs /tmp && mount -t tmpfs tmpfs /dev/shm && mkdir -p $RAY_TMPDIR && cd /tmp"
            script = (
                f"{private} && exec {self._ray} start --address={_address(_HOSTS[0])}:{_PORT} "
                f"--num-cpus={self._cpus} {common}"
            )
        isolated = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script]
        self.hosts[host] = subprocess.Popen(
            ["ip", "netns", "exec", host, *isolated],
            env=self._environment,
            stdout=(self._folder / f"{host}.txt").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def await_raylet(self, host: str) -> None:
        """Waits until a host's raylet runs."""
        deadline = time.monotonic() + _JOIN_SECONDS
        while "Ray runtime started" not in (self._folder / f"{host}.txt").read_text():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{host} did not start: {(self._folder / f'{host}.txt').read_text()}")
            time.sleep(_POLL_SECONDS)

    def on_head(self, *command: str, output: Path) -> _Process:
        """Starts a command on the head, in its namespaces."""
        inner = subprocess.run(
            ["pgrep", "-P", str(self.hosts[_HOSTS[0]].pid)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split()[0]
        enter = ["nsenter", "--target", inner, "--net", "--mount", "--pid", f"--wd={self._home}"]
        return subprocess.Popen(
            [*enter, *command],
            env=self._environment,
            stdout=output.open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def kill(self, host: str) -> None:
        """Kills all processes of a host at once."""
        process = self.hosts.pop(host)
        process.kill()
        process.wait()

    def close(self) -> None:
        """Kills everything."""
        for host in reversed(list(self.hosts)):
            self.kill(host)


class _Run:
    """A run of `headrace train` on the head, and its records so far."""

    def __init__(
        self, cluster: _Cluster, folder: Path, arguments: argparse.Namespace, topology: str, seed: int
    ) -> None:
        self.directory = folder / "run"
        self.output = folder / "output.txt"
        size = ("--actors" if topology == "apex" else "--workers", str(arguments.processes))
        command = [
            *(sys.executable, "-m", "headrace", "train", arguments.environment, "--topology", topology, *size),
            *("--launcher", "ray", "--ray-address", f"{_address(_HOSTS[0])}:{_PORT}", "--seed", str(seed)),
            *("--run-dir", str(self.directory), "--evaluation-period-seconds", "2", "--time-limit", "1h"),
        ]
        self.process = cluster.on_head(*command, output=self.output)

    def records(self, kind: str) -> list[dict[str, Any]]:
        """All complete records of a kind."""
        path = self.directory / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [each for each in (json.loads(line) for line in lines if line.endswith("\n")) if each["kind"] == kind]

    def wait_for(self, what: Callable[[], object], seconds: float) -> float:
        """Waits until `what` holds; returns how long it took. Raises RuntimeError with the output if it does not."""
        begin = time.monotonic()
        while not what():
            if self.process.poll() is not None or time.monotonic() - begin > seconds:
                raise RuntimeError(f"the run did not go on: {self.output.read_text()}")
            time.sleep(_POLL_SECONDS)
        return time.monotonic() - begin

    def seconds_to(self, score: float, after: int) -> float | None:
        """When an evaluation had this mean return first, without the `after` first ones; None if none had yet."""
        reached = (each["seconds"] for each in self.records("evaluation")[after:] if each["mean_return"] >= score)
        return next(reached, None)

    def placed(self) -> dict[str, str]:
        """The last place of each actor or worker."""
        return {each["role"]: each["place"] for each in self.records("place") if "evaluator" not in each["role"]}

    def finish(self, seconds: float) -> dict[str, Any]:
        """Ends the run like Ctrl-C, and returns its summary."""
        os.killpg(self.process.pid, signal.SIGINT)  # nsenter ends at once, the run when it has saved
        path, deadline = self.directory / "summary.json", time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the run did not end: {self.output.read_text()}")
            time.sleep(_POLL_SECONDS)
        summary: dict[str, Any] = json.loads(path.read_text())
        return summary


def _measure(arguments: argparse.Namespace, topology: str, event: str, seed: int) -> dict[str, Any]:
    """One run on a fresh cluster; `event` happens after the first evaluation."""
    limit = arguments.time_limit
    with tempfile.TemporaryDirectory(prefix="hr") as name, _network():
        folder = Path(name)
        cluster = _Cluster(folder, arguments.cpus)
        try:
            for host in _HOSTS:
                cluster.start(host)
                cluster.await_raylet(host)
            run = _Run(cluster, folder, arguments, topology, seed)
            run.wait_for(lambda: len(run.placed()) == arguments.processes, _JOIN_SECONDS)
            places = len(set(run.placed().values()))
            run.wait_for(lambda: run.records("evaluation"), limit)
            back = _disturb(cluster, run, event)
            before = len(run.records("evaluation")) if event != "none" else 0
            run.wait_for(lambda: run.seconds_to(arguments.score, before) is not None, limit)
            score_seconds = run.seconds_to(arguments.score, before)
            assert score_seconds is not None
            summary = run.finish(limit)
            deaths = sum("its node was lost" not in each["reason"] for each in summary["exits"])
            return {
                "topology": topology,
                "event": event,
                "seed": seed,
                "hosts_with_roles": places,
                "seconds_to_score": round(score_seconds, 1),
                "lost_with_node": len(summary["exits"]) - deaths,
                "other_deaths": deaths,
                "seconds_until_back": None if back is None else round(back, 1),
                "environment_steps": summary["environment_steps"],
                "learner_steps": summary["learner_steps"],
            }
        finally:
            cluster.close()


def _disturb(cluster: _Cluster, run: _Run, event: str) -> float | None:
    """Cuts a link for 10 s, or kills a host; returns the seconds from the kill until every lost role runs elsewhere."""
    host = _HOSTS[-1]
    if event == "cut":
        _ip("link", "set", _link(host), "down")
        time.sleep(10.0)
        _ip("link", "set", _link(host), "up")
        progress = len(run.records("progress"))
        run.wait_for(lambda: len(run.records("progress")) > progress + 5, _JOIN_SECONDS)
    if event == "kill":
        lost = {role for role, place in run.placed().items() if _address(host) in place}
        _ip("link", "set", _link(host), "down")  # a machine without power sends no more packets
        cluster.kill(host)
        return run.wait_for(
            lambda: not any(_address(host) in place for role, place in run.placed().items() if role in lost),
            _JOIN_SECONDS,
        )
    return None


def _holds(record: dict[str, Any]) -> bool:
    """Whether roles ran on both hosts, none died by itself, and those of a killed host came back in time."""
    if record["event"] == "kill":
        return (
            record["lost_with_node"] > 0
            and not record["other_deaths"]
            and (record["seconds_until_back"] <= _RESTART_SECONDS)
        )
    return record["hosts_with_roles"] == 2 and not record["lost_with_node"] and not record["other_deaths"]


def main() -> int:
    """Runs every event in both topologies and writes results/three_hosts.csv; status 1 if a requirement is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--environment", default="CartPole-v1")
    parser.add_argument("--score", type=float, default=475.0)
    parser.add_argument("--seeds", type=positive, default=1, help="seeds 0 .. N-1")
    parser.add_argument("--processes", type=positive, default=4, help="actors or workers")
    parser.add_argument("--cpus", type=positive, default=4, help="CPUs that each of the two hosts has for Ray")
    parser.add_argument("--time-limit", type=positive_number, default=300.0, help="seconds allowed to reach the score")
    arguments = parser.parse_args()
    require("headrace", "ray")
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "unshare", "nsenter", "pgrep"))):
        print("benchmarks: three_hosts needs root, iproute2, util-linux and procps")
        return 2
    describe(arguments.environment)
    warn_if_busy()
    with Rows("three_hosts") as rows:
        for seed in range(arguments.seeds):
            for topology in ("apex", "parameter-server"):
                for event in _EVENTS:
                    rows.add(_measure(arguments, topology, event, seed))
                    print(rows.records[-1], flush=True)
    table = Table(title=f"{arguments.environment} to {arguments.score:g} on three hosts")
    columns = ("topology", "event", "seconds_to_score", "lost_with_node", "other_deaths", "seconds_until_back")
    for column in columns:
        table.add_column(column.replace("_", " "))
    for record in rows.records:
        table.add_row(*("" if record[column] is None else str(record[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    print(f"written to {rows.path.relative_to(_ROOT)}")
    missed = [
        f"{record['topology']}, {record['event']}, seed {record['seed']}"
        for record in rows.records
        if not _holds(record)
    ]
    print(
        "required: no role dies unless its host does, and then it is back within 15 s: "
        + (f"MISSED by {'; '.join(missed)}" if missed else "holds")
    )
    return int(bool(missed))


if __name__ == "__main__":
    run(main)
