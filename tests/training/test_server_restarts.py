"""Whole small runs whose standalone server is killed, restarted or gone, with the roles as threads."""

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from headrace import ParameterServer
from headrace._native import ChunkWriter, Client, Signature
from headrace.errors import ClosedError, ConfigError, LaunchError
from headrace.replay import BatchBuffer
from headrace.servers import Endpoint, base, connect_role, open_server, standalone
from headrace.settings import server as server_module
from headrace.training import trainer
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.supervision import Supervisor

from ..waiting import wait_for
from .conftest import SMALL, TOPOLOGIES, ServerProcess, counted_steps


def test_a_run_keeps_its_claim_across_a_server_restart(
    server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standalone, "_CLAIM_SECONDS", 0.2)
    endpoint = Endpoint(server_process.address, "one", reconnect_seconds=60.0)
    with contextlib.closing(open_server(endpoint, "a1")) as first:
        server_process.kill()
        server_process.start()
        with pytest.raises(ConfigError, match=r"run is one; .* the name is kept for it for another [1-9]"):
            open_server(endpoint, "b2")
        assert first.drain("reports") == []  # it is connected again
        with pytest.raises(ConfigError, match=r"run is one; .* another owner holds it"):
            open_server(endpoint, "b2")
    with contextlib.closing(open_server(endpoint, "b2")) as second:  # the first has ended, and given it back
        server_process.kill()
        server_process.start()
        assert second.drain("reports") == []


def test_a_run_continues_after_its_server_was_killed_and_restarted(
    start: Any, server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = counted_steps(monkeypatch)
    run = start(server_process.address, steps=10**9)
    for _ in range(2):
        run.wait(run.updates() + 50)
        stats = run.trainer._program.table.stats()
        size = min(stats["size"], stats["capacity"] - 50)  # of a full table a whole chunk goes at a time
        server_process.kill()
        server_process.start()
        run.wait(run.updates() + 50)
        assert run.trainer._program.table.stats()["recovered"] >= size
    run.end_after(500)
    summary = run.summary()
    assert summary["stopped_by"] == "steps"
    assert summary["environment_steps"] == sum(steps)  # even if reports were lost
    assert not any("died" in text for text in run.messages.texts)
    assert [record["kind"] for record in run.directory.read_metrics()].count("server-restart") == 2


@pytest.mark.parametrize(("shard_save_seconds", "replay"), [(0.05, "local"), (1e6, "global")])
def test_workers_continue_after_their_server_was_killed_and_restarted(
    start: Any, tmp_path: Path, shard_save_seconds: float, replay: Literal["local", "global"]
) -> None:
    process = ServerProcess(tmp_path, shard_save_seconds=shard_save_seconds)
    topology = ParameterServer(workers=2, envs_per_worker=2, chunk_steps=10, shards=2, replay=replay)
    run = start(process.address, topology=topology, steps=10**9)
    lost = 0
    for _ in range(2):
        run.wait(run.updates() + 50)
        process.kill()
        process.start()
        with contextlib.closing(Client(process.address)) as client:
            lost = max(shard["lost"] for shard in client.stats()["shards"].values())
        run.wait(run.updates() + 50)
    run.end_after(500)
    summary = run.summary()
    process.kill()
    workers = summary["workers"]
    assert summary["stopped_by"] == "steps"
    assert workers["updates_lost"] == lost
    assert (workers["dropped"], workers["refused"]) == (0, 0)
    # A restart that lost updates counts as one. A push without an answer may be applied again, and a late turn counted.
    assert 0 <= summary["learner_steps"] - workers["updates"] <= 2 + 2 * topology.workers + workers["late_turns"]
    if shard_save_seconds > 1000:
        assert lost >= 100
    assert not any("died" in text for text in run.messages.texts)
    records = run.directory.read_metrics()
    assert [record["kind"] for record in records].count("server-restart") == 2
    assert [record for record in records if record["kind"] == "workers"][-1]["updates_lost"] == lost


def test_workers_end_with_a_server_that_did_not_keep_their_shards(start: Any, tmp_path: Path) -> None:
    process = ServerProcess(tmp_path, keeps=False)
    run = start(process.address, topology=TOPOLOGIES["parameter-server"], steps=10**9)
    run.wait(50)
    process.kill()
    process.start()
    with pytest.raises(LaunchError, match="is not on this server"):
        run.summary()
    process.kill()


def test_a_killed_server_has_every_acknowledged_chunk(server_process: ServerProcess) -> None:
    signature = Signature((1,), "float32")
    options = {"capacity": 10_000, "sampler": "uniform", "seed": 1}
    acknowledged: list[int] = []
    with contextlib.closing(Client(server_process.address)) as client:
        client.open_table("known", signature, fresh=True, **options)
        writer = ChunkWriter(signature, chunk_steps=3)
        writer.start(np.zeros(1, np.float32))
        while len(acknowledged) < 40:
            writer.append(len(acknowledged), 1.0, np.zeros(1, np.float32), False, False)
            acknowledged += [client.insert("known", chunk) for chunk in writer.take()]
        server_process.kill()
    server_process.start()
    with contextlib.closing(Client(server_process.address)) as client:
        stats = client.stats()["tables"]["known"]
        assert stats["recovered"] == stats["size"] == 3 * 40
        buffer = BatchBuffer(signature, 4_096)
        assert client.sample_into("known", buffer.view, 0.0, 10.0)
    found = set(buffer.arrays.key.tolist())  # each of 120 is missed with a probability of e^-34
    assert len(found) == 3 * 40
    assert set(acknowledged) <= found


def test_a_server_restarted_without_data_is_filled_again(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = counted_steps(monkeypatch)
    forgotten = []
    forget = Supervisor.forget_deaths
    monkeypatch.setattr(Supervisor, "forget_deaths", lambda self: forgotten.append(forget(self)))
    process = ServerProcess(tmp_path, keeps=False)
    try:
        run = start(process.address, steps=10**9)
        for _ in range(4):  # each may end the actor, which finds no table on it
            run.wait(run.updates() + 50)
            process.kill()
            process.start()
        run.wait(run.updates() + 100)
        stats = run.trainer._program.table.stats()
        assert stats["size"] >= SMALL.learning_starts
        assert stats["recovered"] == 0
        run.end_after(500)
        summary = run.summary()
    finally:
        process.kill()
    assert summary["stopped_by"] == "steps"
    assert summary["evaluation_episodes"] == 2
    assert summary["environment_steps"] <= sum(steps)
    assert sum("restarted, with" in text for text in run.messages.texts) == len(forgotten) == 4


def test_an_outage_is_not_training_time(start: Any, server_process: ServerProcess) -> None:
    run = start(server_process.address, steps=10**9, evaluation_period_seconds=1e6)
    run.wait(50)
    before, since = run.trainer._clock.seconds, time.perf_counter()
    server_process.kill()
    time.sleep(4)
    server_process.start()
    run.wait(run.updates() + 50)
    trained, passed = run.trainer._clock.seconds - before, time.perf_counter() - since
    assert passed - trained > 2
    run.end_after(100)
    run.summary()


def test_a_role_waits_for_the_stopped_process_of_its_run_without_limit(
    server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-Z stops the training process, and with it the run's own server, but no other process."""
    monkeypatch.setattr(base, "_SILENT_SECONDS", 0.2)
    own, other = Endpoint(server_process.address), Endpoint(server_process.address, reconnect_seconds=0.5)
    with contextlib.closing(connect_role(own)) as role, contextlib.closing(connect_role(other)) as remote:
        with server_process.stopped(), pytest.raises(ClosedError, match="no answer within"):
            remote.put("reports", b"one")
        with server_process.stopped():
            threading.Timer(1.0, server_process.thaw).start()
            role.put("reports", b"two")


@pytest.mark.parametrize("topology", ["apex", "parameter-server"])
def test_time_in_which_the_server_does_not_answer_is_not_training_time(
    start: Any, server_process: ServerProcess, topology: str
) -> None:
    """Though no connection is lost."""
    run = start(server_process.address, topology=TOPOLOGIES[topology], steps=10**9, evaluation_period_seconds=1e6)
    run.wait(50)
    before, since = run.trainer._clock.seconds, time.perf_counter()
    with server_process.stopped():
        time.sleep(4)
    run.wait(run.updates() + 50)
    trained, passed = run.trainer._clock.seconds - before, time.perf_counter() - since
    assert passed - trained > 2
    run.end_after(100)
    run.summary()


def test_a_run_that_is_asked_to_stop_does_not_wait_for_parameters_on_a_stopped_server(
    start: Any, server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "_SAVE_SECONDS", 0.5)
    run = start(server_process.address, topology=TOPOLOGIES["parameter-server"], steps=10**9)
    run.wait(50)
    with server_process.stopped():
        run.trainer._give_up()
        wait_for(lambda: run.error is not None)
    assert isinstance(run.error, LaunchError)


def test_a_run_whose_server_stays_unavailable_is_saved_and_ends(
    start: Any, server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "RECONNECT_SECONDS", 4.0)
    run = start(server_process.address, steps=10**9, evaluation_period_seconds=1e6)
    run.wait(50)
    server_process.kill()
    with pytest.raises(
        LaunchError, match=r"the run can't continue with the server at unix:.*headrace resume"
    ) as caught:
        run.summary()
    assert "\n" not in str(caught.value)
    checkpoint = newest_checkpoint(run.directory.checkpoints_path)
    assert checkpoint.state.moment.learner_steps >= 50
    assert checkpoint.state.total_seconds - checkpoint.state.moment.seconds > 2  # the outage was no training
    assert json.loads((run.path / "config.json").read_text())["server"]["address"] == server_process.address
