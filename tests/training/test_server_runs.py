"""Whole small runs on a standalone server, with the roles as threads."""

import contextlib
import dataclasses
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headrace._native import Server
from headrace.algorithms.d4pg.config import D4PG
from headrace.errors import ClosedError, ConfigError, DivergenceError, ServerError
from headrace.launch.separate_roles import run_separate
from headrace.replay import BatchBuffer
from headrace.roles import gate
from headrace.servers import LEARNER, Endpoint, connect_role, open_server, standalone
from headrace.topologies.workers import Hogwild, ParameterServer
from headrace.training import supervision, tick_schedule, trainer
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.evaluation import Evaluations, Moment
from headrace.training.evaluation_schedule import EvaluationSchedule

from .conftest import CORRIDOR, SMALL, TOPOLOGIES, ServerProcess, counted_steps, threads


@pytest.mark.parametrize("listen", ["unix:@", "tcp://127.0.0.1:0"])
def test_a_run_leaves_its_experience_with_the_server(start: Any, native: Server, listen: str) -> None:
    run = start(native.listen(listen), "mine", steps=2_000)
    summary = run.summary()
    assert summary["stopped_by"] == "steps"
    assert summary["environment_steps"] >= 2_000
    assert summary["learner_steps"] > 100
    assert summary["evaluation_episodes"] == 2
    table = native.table("mine/replay")
    assert table.size == summary["replay_size"] > 1_000
    with pytest.raises(ClosedError):
        table.sample_into(BatchBuffer(table.signature, 1).view, 0.4)
    checkpoint = newest_checkpoint(run.directory.checkpoints_path)
    assert set(checkpoint.manifest) == {"learner.safetensors", "state.json", "policy.onnx"}
    assert native.fetch("mine/run") == (2, b"")  # an actor that comes now waits for the next learner


def test_a_resumed_run_finds_its_experience(start: Any, native: Server) -> None:
    run = start(native.listen("unix:@"), steps=1_500)
    first = run.summary()
    wanted = first["environment_steps"] + 1_500
    run.resume(steps=wanted)
    second = run.summary()
    [said] = [text for text in run.messages.texts if text.startswith("continues with")]
    assert said.startswith(f"continues with the {first['replay_size']:,} transitions that run default has on unix:")
    assert second["environment_steps"] >= wanted
    assert second["learner_steps"] > first["learner_steps"]
    assert second["replay_size"] >= first["replay_size"] + 1_300  # but for steps in no chunk yet


@pytest.mark.parametrize(
    "mistake",
    [
        {"algorithm": D4PG()},  # which the corridor's actions don't fit
        {"algorithm": dataclasses.replace(SMALL, replay_capacity=SMALL.learning_starts)},
        {"topology": ParameterServer(workers=1), "algorithm": D4PG()},
        {"topology": Hogwild(workers=1), "algorithm": D4PG()},
        {"topology": ParameterServer(workers=1, shards=1_000)},
        {
            "topology": ParameterServer(workers=1, replay="global"),
            "algorithm": dataclasses.replace(SMALL, replay_capacity=10**12),
        },
    ],
    ids=[
        "spaces",
        "capacity",
        "spaces of a parameter server",
        "spaces of HogWild",
        "shards",
        "capacity for workers",
    ],
)
def test_a_mistake_costs_no_experience(start: Any, native: Server, mistake: dict[str, Any]) -> None:
    address = native.listen("unix:@")
    size = start(address, steps=1_000).summary()["replay_size"]
    with pytest.raises((ConfigError, ServerError)):
        start(address, steps=1_000, **mistake).summary()
    assert native.stats()["tables"]["default/replay"]["size"] == size


def test_two_runs_share_a_server(start: Any, native: Server) -> None:
    address = native.listen("unix:@")
    runs = [start(address, name, steps=1_500) for name in ("one", "two")]
    for run in runs:
        assert run.summary()["environment_steps"] >= 1_500
    sizes = {name: table["size"] for name, table in native.stats()["tables"].items()}
    assert sizes == {
        f"{name}/replay": run.summary()["replay_size"] for name, run in zip(("one", "two"), runs, strict=True)
    }


def test_a_second_learner_of_a_run_is_refused(start: Any, native: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 0.2)
    address = native.listen("unix:@")
    with (
        contextlib.closing(open_server(Endpoint(address, "default"))),
        pytest.raises(ConfigError, match="run is default; it must be one without a learner"),
    ):
        start(address, steps=1_000).summary()
    assert start(address, steps=1_000).summary()["environment_steps"] >= 1_000


@pytest.mark.parametrize("restarts", [False, True])
def test_the_name_of_a_killed_learner_is_reserved_for_its_next_start(
    server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 0.2)
    endpoint = Endpoint(server_process.address, "one", reconnect_seconds=60.0)
    program = (
        "import sys; from headrace.servers import Endpoint, open_server; "
        "server = open_server(Endpoint(sys.argv[1], 'one', reconnect_seconds=60.0), 'a1'); "
        "print('there', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, endpoint.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as learner:
        assert learner.stdout is not None
        assert learner.stdout.readline() == b"there\n"
        if restarts:
            server_process.kill()
        learner.kill()
    if restarts:
        server_process.start()
    with pytest.raises(ConfigError, match="run is one;"):
        open_server(endpoint, "b2")
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 60.0)  # its connection may still be closing
    open_server(endpoint, "a1").close()


def test_separate_actors_get_all_settings_from_the_server(start: Any, native: Server, tmp_path: Path) -> None:
    address = native.listen("tcp://127.0.0.1:0")
    run = start(address, steps=1_000, local_actors=False)
    said: list[str] = []
    ended = run_separate(run.endpoint, "actor", 2, tmp_path / "logs", said.append, launcher=threads)
    assert ended == "end"
    summary = run.summary()
    assert summary["environment_steps"] >= 1_000
    assert summary["replay_size"] > 700
    assert said[0].startswith(f"2 actors in {CORRIDOR}")
    assert said[-1] == "the run has ended"
    records = run.directory.read_metrics()
    assert max(record.get("actors_alive", 0) for record in records) == 2
    assert all(record["kind"] != "exit" for record in records)


def test_reports_during_the_final_evaluation_are_in_the_checkpoint_too(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = EvaluationSchedule.evaluate

    def evaluate_late(schedule: EvaluationSchedule, episodes: int, *, hold: bool) -> None:
        acted = {"steps": 10**6, "episodes": 9, "returns": [], "seconds": {}}
        late = {"role": "actor", "index": 0, "generation": 0, "phase": "push", "stalled_seconds": 0.0}
        native.put("default/reports", json.dumps(late | {"writer": "w", "acted": acted}).encode())
        evaluate(schedule, episodes, hold=hold)

    monkeypatch.setattr(EvaluationSchedule, "evaluate", evaluate_late)
    run = start(native.listen("unix:@"), steps=1_000, evaluation_period_seconds=1e6)
    summary = run.summary()
    state = newest_checkpoint(run.directory.checkpoints_path).state
    assert (state.environment_steps, state.episodes) == (summary["environment_steps"], summary["episodes"])
    assert state.environment_steps > 10**6


def test_a_surplus_actor_waits(start: Any, native: Server, tmp_path: Path) -> None:
    run = start(native.listen("unix:@"), steps=1_000, local_actors=False)
    assert run_separate(run.endpoint, "actor", 3, tmp_path / "logs", lambda text: None, launcher=threads) == "end"
    assert run.summary()["environment_steps"] >= 1_000
    assert max(record.get("actors_alive", 0) for record in run.directory.read_metrics()) == 2


@pytest.mark.parametrize("replay", ["local", "global"])
def test_separate_workers_train_and_continue_after_a_resume(
    start: Any, native: Server, tmp_path: Path, replay: str
) -> None:
    topology = dataclasses.replace(TOPOLOGIES["parameter-server"], replay=replay)
    run = start(native.listen("tcp://127.0.0.1:0"), steps=1_000, topology=topology, local_actors=False)
    said: list[str] = []
    assert run_separate(run.endpoint, "worker", 3, tmp_path / "logs", said.append, launcher=threads) == "end"
    assert said[0].startswith(f"3 workers in {CORRIDOR}")
    first = run.summary()
    assert first["environment_steps"] >= 1_000
    assert first["learner_steps"] > 0
    assert first["workers"]["updates"] > 0
    assert first["evaluation_episodes"] == 2
    records = run.directory.read_metrics()
    assert max(record.get("actors_alive", 0) for record in records) == 2
    assert all(record["kind"] != "exit" for record in records)
    run.resume(steps=first["environment_steps"] + 1_000)
    assert run_separate(run.endpoint, "worker", 2, tmp_path / "logs", said.append, launcher=threads) == "end"
    second = run.summary()
    assert second["environment_steps"] >= first["environment_steps"] + 1_000
    assert second["learner_steps"] > first["learner_steps"]


def test_the_last_reports_of_separate_workers_count(
    start: Any, native: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "_HOLD_SECONDS", 60.0)  # they are waited for even on a busy machine
    steps = counted_steps(monkeypatch)
    settings = {"topology": TOPOLOGIES["parameter-server"], "steps": 1_000, "final_evaluation_episodes": 0}
    run = start(native.listen("unix:@"), local_actors=False, evaluation_period_seconds=1e6, **settings)
    assert run_separate(run.endpoint, "worker", 2, tmp_path / "logs", lambda text: None, launcher=threads) == "end"
    summary = run.summary()
    assert summary["environment_steps"] == sum(steps)
    assert summary["learner_steps"] == summary["workers"]["updates"]


def test_divergence_of_a_separate_worker_ends_the_run(start: Any, native: Server, tmp_path: Path) -> None:
    algorithm = dataclasses.replace(SMALL, learning_rate=1e30, loss="squared")
    settings = {"topology": TOPOLOGIES["parameter-server"], "algorithm": algorithm, "steps": 10**9}
    run = start(native.listen("unix:@"), local_actors=False, **settings)
    with contextlib.suppress(ConfigError):  # whichever ends first, the worker or the run
        run_separate(run.endpoint, "worker", 1, tmp_path / "logs", lambda text: None, launcher=threads)
    with pytest.raises(DivergenceError, match="training diverged"):
        run.summary()


def test_an_evaluation_that_pauses_training_pauses_the_servers_table(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(standalone.StandaloneTable, "set_paused", lambda table, paused: calls.append(paused))
    assert start(native.listen("unix:@"), steps=10**9, until_score=1.0).summary()["solved"]
    assert calls[-1]  # of the 100 episodes that decided
    assert all(before != after for before, after in itertools.pairwise(calls))


def test_time_without_reading_reports_is_not_counted_against_roles(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long turn, here because of a slow answer to stats(), must not get roles killed."""
    stats = standalone.StandaloneTable.stats
    late = [0.0]

    def slow_stats(table: standalone.StandaloneTable) -> dict[str, float]:
        late[0] += 1_000.0  # by the clocks of the training process
        return stats(table)

    for module in (supervision, tick_schedule):
        monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + late[0])
    run = start(native.listen("unix:@"), steps=10**9, hang_seconds=500.0)
    run.wait(20)
    with monkeypatch.context() as patched:
        patched.setattr(standalone.StandaloneTable, "stats", slow_stats)
        while not late[0]:
            run.wait(run.updates() + 2)
    run.end_after(100)
    run.summary()
    assert not any("no heartbeat" in text for text in run.messages.texts)


def test_a_finished_run_does_not_need_its_table_any_more(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = ServerProcess(tmp_path, keeps=False)
    request = Evaluations.request

    def request_late(evaluations: Evaluations, policy: bytes, moment: Moment, episodes: int, *, hold: bool) -> None:
        request(evaluations, policy, moment, episodes, hold=hold)
        process.kill()
        process.start()

    monkeypatch.setattr(Evaluations, "request", request_late)
    try:
        run = start(process.address, steps=1_000, evaluation_period_seconds=1e6)
        summary = run.summary()
    finally:
        process.kill()
    assert summary["evaluation_episodes"] == 2
    assert summary["replay_size"] > 500


def test_a_run_that_cannot_start_releases_its_name(start: Any, native: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise ConfigError("no supervisor today")

    address = native.listen("unix:@")
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "Supervisor", fail)
        with pytest.raises(ConfigError, match="no supervisor today"):
            start(address, steps=1_000).summary()
    with contextlib.closing(connect_role(Endpoint(address, "default"))) as role:
        role.claim(LEARNER, 1)


def test_steps_for_an_earlier_run_of_the_name_are_not_counted(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = counted_steps(monkeypatch)
    address = native.listen("unix:@")
    run = start(address, steps=10**9)
    run.wait(10)
    acted = {"steps": 10**6, "episodes": 9, "returns": [], "seconds": {}}
    stranger = {"role": "actor", "index": 0, "generation": 0, "phase": "push", "stalled_seconds": 0.0}
    stranger |= {"run_id": "another", "writer": "w", "acted": acted}
    native.put("default/reports", json.dumps(stranger).encode())
    run.end_after(300)
    assert run.summary()["environment_steps"] == sum(steps) < 10**6
