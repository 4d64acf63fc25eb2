"""Runs of workers that share parameters: in threads, and in processes of which one is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace import A3C, DQN, Hogwild, ParameterServer
from headrace.algorithms.config import Algorithm
from headrace.environments.toy import Corridor
from headrace.errors import ConfigError
from headrace.networks import Architecture
from headrace.networks.policy_graph import PolicyGraph
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.roles import gate
from headrace.topologies.workers import config
from headrace.training import resume
from headrace.training.checkpoint import Checkpoint, newest_checkpoint
from headrace.training.policy_use import export

from .conftest import SMALL as SMALL_DQN
from .conftest import TOPOLOGIES, WORKERS, Train
from .test_faults import SMALL, TOY, learning, roles, start, wait_for
from .test_simulated import simulate

SHORT = [pytest.param(name, marks=pytest.mark.slow) if name != "parameter-server" else name for name in WORKERS]
"""All, of which three are left to the slow tests: they take the same paths."""
FEW = [*SMALL[4:], "--envs-per-worker", "2"]
_THREADS = """
import os
import torch
from headrace.algorithms.engine import limit_torch_threads
limit_torch_threads(1)
before = len(os.listdir("/proc/self/task"))
weights = torch.randn(1500, 1500, requires_grad=True)
(weights @ weights).exp().mean().backward()
print(torch.get_num_threads(), len(os.listdir("/proc/self/task")) - before)
"""


def workers(pid: int) -> list[int]:
    return roles(pid, b"worker")


def records(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [record for record in lines if record["kind"] == kind]


@pytest.mark.parametrize("topology", WORKERS)
def test_the_summary_counts_every_gradient_by_outcome(
    train: Train, tmp_path: Path, topology: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_HOLD_SECONDS", 60.0)  # their last turns are waited for even on a busy machine
    result = train(topology, steps=4_000, final_evaluation_episodes=5)
    workers = result.summary["workers"]
    assert result.summary["topology"] == topology
    assert workers["accepted"] == workers["updates"] == result.summary["learner_steps"] > 100
    assert (workers["dropped"], workers["refused"]) == (0, 0)
    assert sum(workers["staleness"].values()) == workers["updates"]
    # 8 samples for each step, but for what learning starts with and what has not been learned from yet
    assert 5 < result.summary["samples_per_insert"] < 9
    assert result.summary["replay_size"] > 1_000
    assert records(tmp_path / "run", "workers")[-1]["updates"] == workers["updates"]


@pytest.mark.slow
def test_one_table_in_the_server_serves_all_workers(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = ParameterServer(workers=2, envs_per_worker=2, chunk_steps=10, replay="global", shards=2)
    monkeypatch.setitem(TOPOLOGIES, "parameter-server", shared)
    result = train("parameter-server", steps=4_000, final_evaluation_episodes=5)
    assert 6 < result.summary["samples_per_insert"] < 9
    assert result.summary["replay_size"] > 3_000


@pytest.mark.parametrize(
    ("topology", "algorithm"), [("parameter-server", SMALL_DQN), ("hogwild", A3C(hidden=(32,), learning_rate=3e-3))]
)
def test_racing_workers_learn(tmp_path: Path, topology: str, algorithm: Algorithm) -> None:
    """In simulated time, where who is faster depends on the seed only."""
    rules: dict[str, Any] = {"steps": 200_000, "until_score": 0.9, "evaluation_period_seconds": 0.5}
    run = simulate(tmp_path / "run", TOPOLOGIES[topology], algorithm=algorithm, **rules)
    assert run.summary["stopped_by"] == "score"


@pytest.mark.parametrize("topology", SHORT)
def test_a_resumed_run_continues_from_parameters_and_optimizer_state(train: Train, topology: str) -> None:
    first = train(topology, steps=3_000, final_evaluation_episodes=0)
    saved = newest_checkpoint(first.run.checkpoints_path)
    updates = first.summary["learner_steps"]
    assert saved.state.moment.learner_steps == updates
    messages: list[str] = []

    class Listening(QuietDisplay):
        def message(self, text: str) -> None:
            messages.append(text)

    with RunDirectory.open(first.path, writing=True) as run:
        assert export(run, first.path / "policy.onnx") < 1e-4
        # fast workers pass the limit of the first run by some thousands
        wanted = first.summary["environment_steps"] + 3_000
        second = resume(run, Listening(), steps=wanted)
    assert any("the workers gather new experience" in text for text in messages)
    assert second.summary["environment_steps"] >= wanted
    assert second.summary["learner_steps"] > updates
    workers = second.summary["workers"]  # a worker that is ended during a turn may not have counted its last update
    assert 0 <= second.summary["learner_steps"] - workers["updates"] <= workers["late_turns"]


def test_a_resumed_run_has_as_many_workers_as_it_had_however_many_cores_there_are(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOPOLOGIES, "hogwild", Hogwild(envs_per_worker=2, chunk_steps=10))  # a worker for each core
    monkeypatch.setattr(config, "available_cores", lambda: 3)
    first = train("hogwild", steps=1_000, final_evaluation_episodes=0)
    monkeypatch.setattr(config, "available_cores", lambda: 1)
    with RunDirectory.open(first.path, writing=True) as run:
        assert export(run, first.path / "policy.onnx") < 1e-4
        second = resume(run, QuietDisplay(), steps=first.summary["environment_steps"] + 500)
    assert second.summary["learner_steps"] > first.summary["learner_steps"]


def test_a_checkpoint_is_exported_although_the_workers_learned_on_while_it_was_written(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here policy.onnx is of an update long before that of the network."""
    first = train("hogwild", steps=1_000, final_evaluation_episodes=0)
    architecture = Architecture.of(newest_checkpoint(first.run.checkpoints_path).state.spec, "mlp", (32,))
    weights = architecture.layout.views(np.zeros(architecture.layout.size, np.float32))
    monkeypatch.setattr(Checkpoint, "policy", lambda checkpoint: PolicyGraph(architecture).serialize(weights))
    with RunDirectory.open(first.path) as run:
        assert export(run, first.path / "policy.onnx") < 1e-4


def slow_corridor() -> Corridor:
    time.sleep(0.5)
    return Corridor()


def test_environments_that_each_take_a_while_to_make_are_not_taken_for_one_that_hangs(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TOPOLOGIES, "hogwild", Hogwild(workers=1, envs_per_worker=8, chunk_steps=10))
    slow = {"environment": f"{__name__}:slow_corridor", "hang_seconds": 3.0}  # 9 of them are made, in 4.5 s
    result = train("hogwild", steps=500, final_evaluation_episodes=0, **slow)
    assert result.summary["exits"] == []


def test_a_device_other_than_the_cpu_is_refused(train: Train) -> None:
    with pytest.raises(ConfigError, match="device is cuda"):
        train("lock", steps=100, device="cuda")


def test_an_updater_that_opens_no_vector_is_refused(train: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    made = DQN.make_updater

    def alone(self: DQN, spec: Any, device: str, seed: int, open_vector: Any = None, engine: Any = "auto") -> Any:
        return made(self, spec, device, seed, None, engine)

    monkeypatch.setattr(DQN, "make_updater", alone)
    with pytest.raises(ConfigError, match="algorithm is dqn, whose updater has not called open_vector"):
        train("hogwild")


def test_a_worker_uses_one_thread_regardless_of_its_environment_variables() -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4", "OMP_THREAD_LIMIT": "64"}
    run = subprocess.run([sys.executable, "-c", _THREADS], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["1", "0"]


@pytest.mark.parametrize("topology", SHORT)
def test_a_run_continues_when_its_workers_are_killed_one_after_the_other(tmp_path: Path, topology: str) -> None:
    """The second continues alone for a while after the first is killed; then only the replacements learn."""
    arguments = ["--topology", topology, "--workers", "2", *FEW, "--time-limit", "600"]
    process = start(tmp_path, f"{TOY}Corridor", *arguments, "--final-evaluation-episodes", "0")
    wait_for(lambda: learning(tmp_path))
    before = workers(process.pid)
    assert len(before) == 2
    for place in range(2):
        os.kill(before[place], signal.SIGKILL)
        wait_for(lambda: len(set(workers(process.pid)) - set(before)) == place + 1)  # noqa: B023 (called at once)

    def learned_since() -> bool:
        """Whether there are new updates one second later, when all reports of the dead workers have been processed."""
        ended = records(tmp_path / "run", "exit")[-1]["seconds"]
        updates = [each["updates"] for each in records(tmp_path / "run", "workers") if each["seconds"] > ended + 1]
        return len(updates) > 1 and updates[-1] > updates[0] + 100

    wait_for(learned_since)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out.count("died (killed by SIGKILL") == 2
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["learner_steps"] > 100
