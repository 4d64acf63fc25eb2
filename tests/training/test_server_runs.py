"""Whole small runs on a server that stands alone, the roles as threads."""

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
from typing import Any

import pytest

from headrace._native import Client, Server
from headrace.errors import ClosedError, ConfigError, LaunchError
from headrace.launch import run_actors
from headrace.replay import BatchBuffer
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.roles import volunteer
from headrace.servers import Endpoint, open_server, standalone
from headrace.settings import RunConfig, ServerPlace
from headrace.settings import place as place_module
from headrace.training import Result, Trainer
from headrace.training.checkpoint import newest_checkpoint

from .conftest import CORRIDOR, SMALL, TOPOLOGIES, threads

QUICK: dict[str, Any] = {"final_evaluation_episodes": 2, "evaluation_period_seconds": 0.5}


class Messages(QuietDisplay):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)


class Run:
    """A run in a thread of its own."""

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
                "place": ServerPlace(address, name),
                **QUICK,
                **settings,
            }
        )
        self.endpoint = config.place.endpoint
        self.directory = RunDirectory.create(path, config.to_json())
        self._start(lambda: Trainer(config, self.directory, self.messages, launcher=threads, local_actors=local_actors))

    def resume(self, **settings: Any) -> None:
        config = dataclasses.replace(RunConfig.from_json(self.directory.read_config()), **settings)
        checkpoint = newest_checkpoint(self.directory.checkpoints_path)
        self._start(lambda: Trainer(config, self.directory, self.messages, checkpoint=checkpoint, launcher=threads))

    def _start(self, make: Callable[[], Trainer]) -> None:
        def run() -> None:
            try:
                self.result = Result(self.directory, make().run())
            except BaseException as error:
                self.error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def summary(self) -> dict[str, Any]:
        """Waits for its end."""
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
        deadline = time.monotonic() + 60
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
    """A server that can be killed, and started again on what it kept."""

    def __init__(self, folder: Path, *, keeps: bool = True) -> None:
        self._data = str(folder / "data") if keeps else ""
        self._listen = f"unix:{folder}/socket"
        self.start()

    def start(self) -> None:
        program = (
            "import sys; from headrace._native import Server; server = Server(data=sys.argv[1]); "
            "print(server.listen(sys.argv[2]), flush=True); sys.stdin.read()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, self._data, self._listen],
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
    assert native.fetch("mine/run") == (2, b"")  # whoever comes now waits for the next learner


def test_a_resumed_run_finds_its_experience(start: Any, native: Server) -> None:
    run = start(native.listen("unix:@"), steps=1_500)
    first = run.summary()
    run.resume(steps=3_000)
    second = run.summary()
    assert f"the server holds {first['replay_size']:,} transitions of the run" in run.messages.texts
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


def test_actors_apart_learn_everything_from_the_server(start: Any, native: Server, tmp_path: Path) -> None:
    address = native.listen("tcp://127.0.0.1:0")
    run = start(address, steps=1_000, local_actors=False)
    said: list[str] = []
    ended = run_actors(run.endpoint, 2, tmp_path / "logs", said.append, launcher=threads)
    assert ended == "end"
    summary = run.summary()
    assert summary["environment_steps"] >= 1_000
    assert summary["replay_size"] > 700
    assert said[0].startswith(f"2 actors in {CORRIDOR}")
    assert said[-1] == "the run has ended"
    records = run.directory.read_metrics()
    assert max(record.get("actors_alive", 0) for record in records) == 2
    assert all(record["kind"] != "exit" for record in records)


def test_more_actors_than_places_are_refused(
    start: Any, native: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volunteer, "_CLAIM_SECONDS", 0.2)
    run = start(native.listen("unix:@"), steps=10**9, time_limit_seconds=5.0, local_actors=False)
    with pytest.raises(ConfigError, match="the run has 2 places for actors and all are taken"):
        run_actors(run.endpoint, 3, tmp_path / "logs", lambda text: None, launcher=threads)
    run.summary()


def test_an_evaluation_that_holds_training_pauses_the_servers_table(
    start: Any, native: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(standalone.StandaloneTable, "set_paused", lambda table, paused: calls.append(paused))
    assert start(native.listen("unix:@"), steps=10**9, until_score=1.0).summary()["solved"]
    assert calls[-1]  # of the 100 episodes that decided
    assert all(before != after for before, after in itertools.pairwise(calls))


def test_a_killed_server_that_comes_back_loses_nothing(start: Any, server_process: ServerProcess) -> None:
    run = start(server_process.address, steps=10**9, time_limit_seconds=12.0)
    run.wait(50)
    for _ in range(2):
        before = run.updates()
        server_process.kill()
        server_process.start()
        run.wait(before + 50)
    summary = run.summary()
    assert summary["stopped_by"] == "time"
    assert run.messages.texts.count("the server was started anew; what it must know is published again") == 2
    assert not any("died" in text for text in run.messages.texts)
    with contextlib.closing(Client(server_process.address)) as client:
        stats = client.stats()["tables"]["default/replay"]
    steps = summary["environment_steps"]
    assert stats["size"] == min(5_000, stats["size"])
    # 8 samples of each, but for the 200 steps before learning starts and the limiter's tolerance
    tolerance = 32 + 2 * 8 * 10 * 4
    assert abs(summary["learner_steps"] * 32 - 8 * (steps - 200)) <= 8 * 4 * (10 + 3) + 2 * tolerance + 0.1 * 8 * steps
    kinds = [record["kind"] for record in run.directory.read_metrics()]
    assert kinds.count("server-restart") == 2


def test_a_server_that_comes_back_with_nothing_ends_the_run(start: Any, tmp_path: Path) -> None:
    process = ServerProcess(tmp_path, keeps=False)
    try:
        run = start(process.address, steps=10**9)
        run.wait(50)
        process.kill()
        process.start()
        with pytest.raises(LaunchError, match=r"the run can't go on with the server at unix:.*headrace resume"):
            run.summary()
    finally:
        process.kill()
    assert newest_checkpoint(run.directory.checkpoints_path).moment.learner_steps >= 50


def test_a_server_that_stays_away_ends_the_run_which_is_saved(
    start: Any, server_process: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "_RECONNECT_SECONDS", 1.0)
    run = start(server_process.address, steps=10**9)
    run.wait(50)
    server_process.kill()
    with pytest.raises(LaunchError, match=r"the run can't go on with the server at unix:.*headrace resume") as caught:
        run.summary()
    assert "\n" not in str(caught.value)
    assert newest_checkpoint(run.directory.checkpoints_path).moment.learner_steps >= 50
    assert json.loads((run.path / "config.json").read_text())["place"]["server"] == server_process.address
