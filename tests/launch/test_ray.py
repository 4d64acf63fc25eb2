"""Roles as actors of a Ray cluster on this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import ray

import headrace
from headrace.errors import ConfigError
from headrace.launch.config import Ray
from headrace.launch.ray import RayLauncher, open_cluster
from headrace.parameters.snapshot import Stamp
from headrace.roles.actor import ActorSettings
from headrace.roles.base import REPORTS, Role
from headrace.roles.evaluator import EvaluatorRole
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.remote_actor import ActorRole
from headrace.servers import EmbeddedServer
from headrace.topologies.config import Apex
from headrace.types import EnvironmentSpec

SMALL = headrace.DQN(hidden=(32,), batch_size=32, replay_capacity=5_000, learning_starts=200, epsilon_decay_steps=1_000)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster with room for more processes than there are cores; runs in it leave it as it is."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


class Bench:
    def __init__(self) -> None:
        with open_cluster(Ray()) as site:
            self.server = EmbeddedServer(site.address, site.token, site.reconnect_seconds)
            self.launcher = site.make_launcher(self.server.endpoint, Path("logs"))

    def wait_for(self, found: Callable[[], object]) -> None:
        deadline = time.monotonic() + 60
        while not found():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    def start(self, role: Role) -> None:
        """Starts a role and waits for its first report."""
        self.launcher.start(role)
        self.wait_for(lambda: self.server.drain(REPORTS))


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.server.close()


def test_a_run_learns_and_leaves_the_cluster_to_its_owner(tmp_path: Path) -> None:
    result = headrace.train(
        "headrace.environments.toy:Corridor",
        algorithm=SMALL,
        topology=Apex(actors=2, envs_per_actor=2, chunk_steps=10, pull_period=20),
        launcher=Ray(),
        until_score=0.9,
        time_limit_seconds=120,
        evaluation_period_seconds=1.0,
        run_dir=tmp_path / "run",
        quiet=True,
    )
    assert result.summary["stopped_by"] == "score"
    assert ray.is_initialized()


def test_a_process_that_is_killed_is_an_exit(bench: Bench) -> None:
    role = EvaluatorRole(0)
    bench.start(role)
    assert isinstance(bench.launcher, RayLauncher)
    os.kill(bench.launcher.process_id(role), signal.SIGKILL)
    exits = []
    bench.wait_for(lambda: exits.extend(bench.launcher.poll()) or exits)
    [ended] = exits
    assert (ended.role, ended.reason, ended.fault) == (role, "its process died", False)


def test_a_users_mistake_is_a_fault_with_its_message(bench: Bench) -> None:
    settings = ActorSettings("NoSuch-v0", 0, 0, (0.1,), SMALL, 10, False, EnvironmentSpec((1,), "float32", 2))
    for name, data in POLICY.blobs(b"no graph", Stamp.now()).items():
        bench.server.publish(name, data)
    bench.launcher.start(ActorRole(0, settings, POLICY, REPLAY))
    exits = []
    bench.wait_for(lambda: exits.extend(bench.launcher.poll()) or exits)
    [ended] = exits
    assert ended.message


def test_a_role_without_room_is_pending_and_can_be_stopped(bench: Bench) -> None:
    launcher = RayLauncher(bench.server.endpoint, Ray(actor_cpus=1000))
    role = EvaluatorRole(0)
    launcher.start(role)
    assert launcher.pending(role)
    assert launcher.poll() == []
    launcher.kill(role)


def test_stopping_ends_the_processes(bench: Bench) -> None:
    role = EvaluatorRole(0)
    bench.start(role)
    assert not bench.launcher.pending(role)
    assert isinstance(bench.launcher, RayLauncher)
    process = bench.launcher.process_id(role)
    bench.launcher.stop([role, EvaluatorRole(1)])
    bench.wait_for(lambda: not Path(f"/proc/{process}").exists())
    assert bench.launcher.poll() == []


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    program = "from headrace.launch.config import Ray\nwith Ray(ray_address='127.0.0.1:9').open(): pass"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert "ray_address is 127.0.0.1:9; it must be auto or HOST:PORT of a Ray cluster" in ended.stderr.splitlines()[-1]


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "headrace.launch.ray")
    with pytest.raises(
        ConfigError, match=r"launcher is ray, which needs the package ray: pip install 'headrace\[ray\]'"
    ):
        Ray().open()
