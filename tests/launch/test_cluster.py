"""Whole runs on clusters of three nodes on this machine: nodes that join and die, and a driver that dies."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ray.cluster_utils import Cluster
from ray.util import get_node_ip_address

from headrace.training.checkpoint import has_checkpoint

from ..waiting import wait_for

PATIENCE_SECONDS = 600.0

pytestmark = pytest.mark.timeout(1800)  # several waits in each test


@pytest.fixture
def cluster(patient_ray: None) -> Iterator[Cluster]:
    """A head with which the learner shares its machine, and two nodes, each with room for an actor or a worker."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


class Run:
    """`headrace` as a user starts it, with its run directory."""

    def __init__(self, directory: Path, *command: str) -> None:
        self.directory = directory
        self._output = (directory.parent / "output.txt").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *command],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            cwd=directory.parent,
        )

    def output(self) -> str:
        return (self.directory.parent / "output.txt").read_text()

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Of this kind, since the run was resumed."""
        path = self.directory / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        found: list[dict[str, Any]] = []
        for record in map(json.loads, (line for line in lines if line.endswith("\n"))):
            found = [] if record["kind"] == "resume" else [*found, record]
        return [record for record in found if record["kind"] == kind]

    def wait_for(self, what: Callable[[], object]) -> None:
        def look() -> object:
            assert self.process.poll() is None, self.output()
            return what()

        wait_for(look, PATIENCE_SECONDS, self.output)

    def finish_at(self, score: float) -> dict[str, Any]:
        """Waits for an evaluation with this mean return, ends the run, and returns its summary."""
        self.wait_for(lambda: max((each["mean_return"] for each in self.records("evaluation")), default=0.0) >= score)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_SECONDS) == 130, self.output()
        summary: dict[str, Any] = json.loads((self.directory / "summary.json").read_text())
        return summary

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def train(address: str, directory: Path, *options: str) -> Run:
    cluster = ["--launcher", "ray", "--ray-address", address, "--wait-seconds", "600", "--run-dir", str(directory)]
    return Run(
        directory, "train", "CartPole-v1", "--evaluation-period-seconds", "3", "--time-limit", "1h", *cluster, *options
    )


def on(run: Run, node: Any) -> set[str]:
    """The roles that were started on a node."""
    return {each["role"] for each in run.records("place") if node.node_id[:6] in each["place"]}


def processes(kind: bytes = b"ray::Host") -> set[int]:
    """Processes of this kind on this machine's nodes, those of other tests too; Host: of roles."""
    found = set()
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if (each / "cmdline").read_bytes().startswith(kind):
                found.add(int(each.name))
        except OSError:
            continue
    return found


def test_apex_goes_on_while_nodes_join_and_die(cluster: Cluster, tmp_path: Path) -> None:
    run = train(cluster.address, tmp_path / "run", "--actors", "4")
    try:
        run.wait_for(lambda: "1 of 5 processes wait for a node that has room" in run.output())
        cluster.add_node(num_cpus=1)
        run.wait_for(lambda: "all 5 processes run" in run.output())
        assert len({each["place"] for each in run.records("place") if "actor" in each["role"]}) == 4

        dying = next(iter(cluster.worker_nodes))
        lost = on(run, dying)
        assert lost
        os.kill(dying.all_processes["raylet"][0].process.pid, signal.SIGKILL)
        run.wait_for(lambda: {each["role"] for each in run.records("exit")} >= lost)
        assert all("its node was lost" in each["reason"] for each in run.records("exit"))

        summary = run.finish_at(200)
        assert {each["role"] for each in summary["exits"]} == lost
        assert all(dying.node_id[:6] not in place for place in summary["places"])
    finally:
        run.kill()


@pytest.mark.slow
def test_parameter_server_survives_a_drained_node_and_is_resumed_after_its_driver_died(
    cluster: Cluster, tmp_path: Path
) -> None:
    others = processes()
    run = train(
        cluster.address,
        tmp_path / "run",
        "--topology",
        "parameter-server",
        "--workers",
        "2",
        "--checkpoint-period-seconds",
        "1",
    )
    try:
        run.wait_for(lambda: len(run.records("place")) == 3 and run.records("evaluation"))
        assert len({each["place"] for each in run.records("place") if "worker" in each["role"]}) == 2
        drained = next(node for node in cluster.worker_nodes if any("worker" in role for role in on(run, node)))
        drained.all_processes["raylet"][0].process.terminate()
        run.wait_for(lambda: {each["role"] for each in run.records("exit")} >= on(run, drained))
        run.wait_for(lambda: len(run.records("place")) == 3 + len(run.records("exit")))
        run.wait_for(lambda: has_checkpoint(tmp_path / "run" / "checkpoints"))
        assert processes() - others
    finally:
        run.kill()
    wait_for(lambda: not processes() - others, PATIENCE_SECONDS)

    run = Run(tmp_path / "run", "resume", str(tmp_path / "run"))
    try:
        run.wait_for(lambda: "resume" in (run.directory / "metrics.jsonl").read_text())
        run.wait_for(lambda: len(run.records("place")) == 3)
        summary = run.finish_at(200)
        assert sum(summary["places"].values()) == 3
    finally:
        run.kill()


@pytest.mark.slow
def test_the_server_on_a_node_is_killed_and_starts_again(tmp_path: Path) -> None:
    others = processes(b"ray::ServerHost")
    server = ["--server-node", get_node_ip_address(), "--server-data", str(tmp_path / "data")]
    run = train("local", tmp_path / "run", *server)
    try:
        run.wait_for(lambda: run.records("progress") and run.records("progress")[-1]["learner_steps"])
        [server] = processes(b"ray::ServerHost") - others
        os.kill(server, signal.SIGKILL)
        run.wait_for(lambda: run.records("server-restart"))
        summary = run.finish_at(100)
        assert summary["replay_size"] > 0
    finally:
        run.kill()
