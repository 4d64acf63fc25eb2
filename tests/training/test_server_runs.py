"""Whole small runs on a standalone server, with the roles as threads."""

import contextlib
import dataclasses
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from headrace import ParameterServer
from headrace._native import ChunkWriter, Client, Server, Signature
from headrace.environments import Episode
from headrace.errors import ClosedError, ConfigError, DivergenceError, LaunchError
from headrace.launch import run_separate
from headrace.replay import BatchBuffer
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.roles.reporter import ActorReporter
from headrace.servers import LEARNER, Endpoint, connect_role, open_server, standalone
from headrace.settings import RunConfig, ServerConfig
from headrace.settings import server as server_module
from headrace.topologies import workers
from headrace.training import Result, Trainer, supervision, trainer
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.evaluation import Evaluations, Moment

from .conftest import CORRIDOR, SMALL, TOPOLOGIES, threads

QUICK: dict[str, Any] = {"final_evaluation_episodes": 2, "evaluation_period_seconds": 0.5}


class Messages(QuietDisplay):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)


class Run:
    """A run in a separate thread."""

    def __init__(self, path: Path, address: str, name: str = "default", **settings: Any) -> None:
        self.messages = Messages()
        self.path = path
        self.error: BaseException | None = None
        local_actors = settings.pop("local_actors", True)
        config = RunConfig(
            **{
                "environment": CORRIDOR,
                "algorithm": SMALL,
                "topology": TOPOLOGIES["apex"],
                "server": ServerConfig(address, name),
                **QUICK,
                **settings,
            }
        )
        self.endpoint = config.server.endpoint
        self.directory = RunDirectory.create(path, config.to_json())
        self._start(lambda: Trainer(config, self.directory, self.messages, launcher=threads, local_actors=local_actors))

    def end_after(self, steps: int) -> None:
        """Ends it after this many more environment steps."""
        self.trainer._config = dataclasses.replace(
            self.trainer._config, steps=self.trainer._monitor.environment_steps + steps
        )

    def resume(self, **settings: Any) -> None:
        config = dataclasses.replace(RunConfig.from_json(self.directory.read_config()), **settings)
        checkpoint = newest_checkpoint(self.directory.checkpoints_path)
        options: dict[str, Any] = {"checkpoint": checkpoint, "local_actors": checkpoint.state["local_actors"]}
        self._start(lambda: Trainer(config, self.directory, self.messages, launcher=threads, **options))

    def _start(self, make: Callable[[], Trainer]) -> None:
        def run() -> None:
            try:
                self.trainer = make()
                self.result = Result(self.directory, self.trainer.run())
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def summary(self) -> dict[str, Any]:
        """The summary, after the run has ended."""
        self._thread.join(120)
        assert not self._thread.is_alive(), "the run did not end in time"
        if self.error:
            raise self.error
        return self.result.summary

    def updates(self) -> int:
        if self.error:
            raise self.error
        records = self.directory.read_metrics()
        return max((record.get("learner_steps", 0) for record in records), default=0)

    def wait(self, updates: int) -> None:
        deadline = time.monotonic() + 120
        while self.updates() < updates:
            assert time.monotonic() < deadline, "it does not learn"
            time.sleep(0.05)


@pytest.fixture
def native() -> Iterator[Server]:
    with contextlib.closing(Server()) as server:
        yield server


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def make(address: str, name: str = "default", **settings: Any) -> Run:
        runs.append(Run(tmp_path / f"run-{len(runs)}", address, name, **settings))
        return runs[-1]

    yield make
    for run in runs:
        run.directory.close()


class ServerProcess:
    """A server that can be killed and restarted on its data."""

    def __init__(self, folder: Path, *, keeps: bool = True, shard_save_seconds: float = 1.0) -> None:
        self._data = str(folder / "data") if keeps else ""
        self._shard_save_seconds = shard_save_seconds
        self._listen = f"unix:{folder}/socket"
        self.start()

    def start(self) -> None:
        program = (
            "import sys; from headrace._native import Server; "
            "server = Server(data=sys.argv[1], shard_save_seconds=float(sys.argv[3])); "
            "print(server.listen(sys.argv[2]), flush=True); sys.stdin.read()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, self._data, self._listen, str(self._shard_save_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def server_process(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    yield process
    process.kill()


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
    run.resume(steps=3_000)
    second = run.summary()
    [said] = [text for text in run.messages.texts if text.startswith("continues with")]
    assert said.startswith(f"continues with the {first['replay_size']:,} transitions that run default has on unix:")
    assert second["environment_steps"] >= 3_000
    assert second["learner_steps"] > first["learner_steps"]
    assert second["replay_size"] > first["replay_size"]


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
    for name in ("_HOLD_SECONDS", "_SILENT_SECONDS"):
        monkeypatch.setattr(workers, name, 60.0)  # they are waited for even on a busy machine
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


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that all actors make from now on."""
    steps: list[int] = []
    count = ActorReporter.count

    def count_too(reporter: ActorReporter, new: int, episodes: list[Episode]) -> None:
        steps.append(new)
        count(reporter, new, episodes)

    monkeypatch.setattr(ActorReporter, "count", count_too)
    return steps


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
    process = ServerProcess(tmp_path, keeps=False)
    try:
        run = start(process.address, steps=10**9)
        run.wait(50)
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
    assert sum("restarted, with" in text for text in run.messages.texts) == 1


def test_time_without_reading_reports_is_not_counted_against_roles(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long turn, here because of a slow answer to stats(), must not get roles killed."""
    stats = standalone.StandaloneTable.stats
    late = [0.0]

    def slow_stats(table: standalone.StandaloneTable) -> dict[str, float]:
        late[0] += 1_000.0  # by the clocks of the training process
        return stats(table)

    clocks = {"monotonic": lambda: time.monotonic() + late[0], "perf_counter": lambda: time.perf_counter() + late[0]}
    for module in (supervision, trainer):
        monkeypatch.setattr(module, "time", SimpleNamespace(**clocks, sleep=time.sleep))
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

    def request_late(evaluations: Evaluations, policy: bytes, moment: Moment, episodes: int) -> None:
        request(evaluations, policy, moment, episodes)
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


def test_steps_for_an_earlier_run_of_the_name_are_not_counted(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = counted_steps(monkeypatch)
    address = native.listen("unix:@")
    run = start(address, steps=10**9)
    run.wait(10)
    stranger = {"role": "actor", "index": 0, "run_id": "another", "writer": "w", "steps": 10**6, "episodes": 9}
    native.put("default/reports", json.dumps({**stranger, "returns": [], "seconds": {}}).encode())
    run.end_after(300)
    assert run.summary()["environment_steps"] == sum(steps) < 10**6


def test_a_run_whose_server_stays_unavailable_is_saved_and_ends(
    start: Any, server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_RECONNECT_SECONDS", 4.0)
    run = start(server_process.address, steps=10**9, evaluation_period_seconds=1e6)
    run.wait(50)
    server_process.kill()
    with pytest.raises(
        LaunchError, match=r"the run can't continue with the server at unix:.*headrace resume"
    ) as caught:
        run.summary()
    assert "\n" not in str(caught.value)
    checkpoint = newest_checkpoint(run.directory.checkpoints_path)
    assert checkpoint.moment.learner_steps >= 50
    assert checkpoint.state["total_seconds"] - checkpoint.moment.seconds > 2  # the outage was no training
    assert json.loads((run.path / "config.json").read_text())["server"]["address"] == server_process.address
