"""One computing thread in every process, as many processes as suit the machine, a Redis, and longer limits for Ray."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.machine import available_cores
from headrace.signals import die_with_parent

# Before any test imports NumPy or PyTorch, and for the processes that tests start: several processes that compute in
# several threads each spend most of their time waiting for one another's threads.
os.environ |= {"OMP_NUM_THREADS": "1", "OMP_THREAD_LIMIT": "1"}

# Under nohup it is ignored, and so it would be in every process that a test sends it to.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

_LONGEST = {"test_cluster.py", "test_ray.py"}
_STARTS = 5
_START_SECONDS = 20.0
_RAY_SECONDS = 600


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Processes for `-n auto`: more than cores, because many tests wait."""
    return max(2, available_cores() * 3 // 2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the longest tests, so that they do not run alone at the end.

    Those of a module that share a cluster run in one process, which starts it once.
    """
    items.sort(key=lambda item: item.path.name not in _LONGEST)


class RedisProcess:
    """A redis-server or valkey-server on a free port, which keeps nothing on disk."""

    def __init__(self, program: str, folder: Path) -> None:
        self._command = [program, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--dir", str(folder)]
        self._log = folder / "redis.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self, *options: str) -> None:
        """Starts it, on the port that it had before or on a free one, and waits until it answers."""
        for _ in range(_STARTS):  # another process may take a free port first
            port = self.port or _free_port()
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [*self._command, "--port", str(port), *options],
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 (it does nothing but one system call)
                )
            if self._answers(port):
                self.port = port
                return
        pytest.fail(f"redis-server does not start: {self._log.read_text()}")

    def client(self, **options: Any) -> Any:
        import redis

        return redis.Redis(port=self.port, protocol=2, **options)

    def stop(self) -> None:
        """Kills it."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stops answering; its connections stay open."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def _answers(self, port: int) -> bool:
        assert self._process
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16):  # +PONG, or that it wants a password
                        return True
            except OSError:
                time.sleep(0.01)
        self.stop()
        return False


@pytest.fixture
def add_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package: an entry point `name` of a group, whose object `kind` is in a module with this source."""
    monkeypatch.syspath_prepend(tmp_path)
    modules = []

    def add(group: str, name: str, module: str, source: str, kind: str = "Kind") -> None:
        modules.append(module)
        (tmp_path / f"{module}.py").write_text(source)
        metadata = tmp_path / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{kind}\n")

    yield add
    for module in modules:
        sys.modules.pop(module, None)
    monkeypatch.undo()


@pytest.fixture
def redis_process(tmp_path: Path) -> Iterator[RedisProcess]:
    """Not started yet; killed after the test."""
    pytest.importorskip("redis")
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("needs redis-server or valkey-server (make .venv/.redis)")
    process = RedisProcess(program, tmp_path)
    yield process
    process.stop()


@pytest.fixture
def redis_server(redis_process: RedisProcess) -> RedisProcess:
    """Started."""
    redis_process.start()
    return redis_process


@pytest.fixture(scope="session")
def patient_ray() -> Iterator[None]:
    """Nodes of Ray have minutes to start, and to answer.

    Ray itself gives a node 30 s to start, and takes one for dead that does not answer within 10 s, five times. A node
    whose process is killed is still found to be dead at once: its connection ends.

    A node starts no Python processes in advance: roles have their own environment variables, so that none of these
    processes would ever run one.
    """
    from ray._private import services

    find, wait = services.get_node, services.wait_for_node

    def find_patiently(*node: str) -> Any:
        deadline = time.monotonic() + _RAY_SECONDS
        while True:
            try:
                return find(*node)
            except RuntimeError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_gcs_server_port_wait_time_s", str(_RAY_SECONDS))
        patch.setenv("RAY_health_check_timeout_ms", str(_RAY_SECONDS * 1_000))
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        patch.setattr(services, "get_node", find_patiently)
        patch.setattr(services, "wait_for_node", lambda address, name, _: wait(address, name, _RAY_SECONDS))
        yield


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
