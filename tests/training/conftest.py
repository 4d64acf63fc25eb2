"""Short runs, and servers for them."""

import contextlib
import dataclasses
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from headrace import DQN, AdPsgd, Apex, Hogwild, Lock, ParameterServer, Serial
from headrace._native import Server
from headrace.algorithms.config import Algorithm
from headrace.launch.base import Launcher
from headrace.launch.threads import ThreadLauncher
from headrace.report.display import QuietDisplay
from headrace.report.run_directory import RunDirectory
from headrace.roles.reporter import ActorReporter
from headrace.servers import Endpoint
from headrace.settings import RunConfig, ServerConfig
from headrace.training import Result, Trainer
from headrace.training.checkpoint import newest_checkpoint
from headrace.training.session import Session
from headrace.types import Array

from ..waiting import wait_for

CORRIDOR = "headrace.environments.toy:Corridor"
SMALL = DQN(
    hidden=(32,),
    batch_size=32,
    replay_capacity=50_000,  # more than a run on a busy machine takes beyond its steps
    learning_starts=200,
    samples_per_step=8,
    target_update_period=50,
    epsilon_decay_steps=1_000,
    publish_period=5,
)
WORKERS = {"lock": Lock, "hogwild": Hogwild, "ad-psgd": AdPsgd, "parameter-server": ParameterServer}
TOPOLOGIES = {
    "serial": Serial(envs_per_actor=2, chunk_steps=10),
    **{name: kind(workers=2, envs_per_worker=2, chunk_steps=10) for name, kind in WORKERS.items()},
    "apex": Apex(actors=2, envs_per_actor=2, chunk_steps=10, pull_period=20),
}
QUICK: dict[str, Any] = {"final_evaluation_episodes": 2, "evaluation_period_seconds": 0.5}

Train = Callable[..., Result]


def threads(endpoint: Endpoint, logs: Path) -> Launcher:
    del logs
    return ThreadLauncher(endpoint)


@pytest.fixture
def launcher() -> Callable[[Endpoint, Path], Launcher]:
    """Roles as threads."""
    return threads


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Trains in this process with the roles as threads; every call has a separate run directory.

    With a simulated `launcher` in simulated time, so that the outcome depends on the seed only.
    """

    def start(topology: str, name: str = "run", **settings: Any) -> Result:
        given, display = settings.pop("algorithm", {}), settings.pop("display", QuietDisplay())
        algorithm = given if isinstance(given, Algorithm) else dataclasses.replace(SMALL, **given)
        config = RunConfig(
            **{"environment": CORRIDOR, "algorithm": algorithm, "topology": TOPOLOGIES[topology], **settings}
        )
        with RunDirectory.create(tmp_path / name, config.to_json()) as run:
            roles = None if "launcher" in settings else threads
            return Result(run, Trainer(config, run, display, launcher=roles).run())

    return start


def make_session(**parts: Any) -> Session:
    """A real session whose parts are mocks, unless they are given."""
    names = [each.name for each in dataclasses.fields(Session)]
    return Session(**{name: parts.pop(name, Mock()) for name in names}, **parts)


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
        config = dataclasses.replace(self.directory.read_config(), **settings)
        checkpoint = newest_checkpoint(self.directory.checkpoints_path)
        options: dict[str, Any] = {"checkpoint": checkpoint, "local_actors": checkpoint.state.local_actors}
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
        wait_for(lambda: self.updates() >= updates)


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

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """A context in which it answers nothing; its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)
        wait_for(lambda: set(self._states()) == {"T"})
        try:
            yield
        finally:
            self.thaw()

    def _states(self) -> list[str]:
        """Of its threads; "T" is stopped."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        return [task.read_text().rpartition(") ")[2][0] for task in tasks]

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def server_process(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path)
    yield process
    process.kill()


def counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps that all actors make from now on."""
    steps: list[int] = []
    count = ActorReporter.count

    def count_too(reporter: ActorReporter, new: int, *rest: Any) -> None:
        steps.append(new)
        count(reporter, new, *rest)

    monkeypatch.setattr(ActorReporter, "count", count_too)
    return steps


def tensors(result: Result) -> dict[str, Array]:
    """The learner's state in the run's last checkpoint."""
    return newest_checkpoint(result.run.checkpoints_path).learner()
