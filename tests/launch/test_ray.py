"""Roles as actors of a Ray cluster on this machine."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError
from ray.util.client import ray as client

import headrace
from headrace.environments.toy import Corridor
from headrace.errors import ConfigError, EnvironmentFault, LaunchError
from headrace.gradients.handles import SharedHandle
from headrace.launch.base import Exit
from headrace.launch.ray import Ray
from headrace.launch.ray.launcher import RayLauncher
from headrace.launch.ray.nodes import Nodes
from headrace.parameters.snapshot import Stamp
from headrace.roles.actor import ActorSettings
from headrace.roles.base import Role
from headrace.roles.evaluator import EvaluatorRole
from headrace.roles.handles import POLICY, REPLAY
from headrace.roles.messages import REPORTS
from headrace.roles.remote_actor import ActorRole
from headrace.roles.remote_worker import WorkerRole, WorkerSettings
from headrace.servers import EmbeddedServer
from headrace.settings import RunConfig, ServerConfig
from headrace.topologies.apex import Apex
from headrace.topologies.config import Topology
from headrace.topologies.serial import Serial
from headrace.types import EnvironmentSpec

from ..waiting import wait_for

PATIENCE_SECONDS = 600.0  # a busy machine may need minutes to start a process of Ray
pytestmark = pytest.mark.timeout(1800)
PATIENT = Ray(wait_seconds=PATIENCE_SECONDS)
SMALL = headrace.DQN(hidden=(32,), batch_size=32, replay_capacity=5_000, learning_starts=200, epsilon_decay_steps=1_000)


@pytest.fixture(scope="module", autouse=True)
def cluster(patient_ray: None) -> Iterator[None]:
    """A cluster with room for more processes than there are cores; runs in it leave it as it is."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init("local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


class Bench:
    def __init__(self, config: Ray, logs: Path) -> None:
        self.server = EmbeddedServer("tcp://127.0.0.1:0", "0123456789abcdef")
        self.launcher = RayLauncher(self.server.endpoint, logs, config)

    def start(self, role: Role) -> None:
        """Starts a role and waits for its first report."""
        self.launcher.start(role)
        wait_for(lambda: self.launcher.poll() or self.server.drain(REPORTS))

    def end(self) -> Exit:
        """Waits for the end of the only role."""
        exits: list[Exit] = []
        wait_for(lambda: exits.extend(self.launcher.poll()) or exits)
        [ended] = exits
        return ended

    def close(self) -> None:
        self.launcher.close()
        self.server.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(PATIENT, tmp_path / "logs")
    yield made
    made.close()


def test_a_run_learns_and_leaves_the_cluster_to_its_owner(tmp_path: Path) -> None:
    result = headrace.train(
        "headrace.environments.toy:Corridor",
        algorithm=SMALL,
        topology=Apex(actors=2, envs_per_actor=2, chunk_steps=10, pull_period=20),
        launcher=PATIENT,
        until_score=0.9,
        time_limit_seconds=PATIENCE_SECONDS,
        evaluation_period_seconds=1.0,
        run_dir=tmp_path / "run",
        quiet=True,
    )
    assert result.summary["stopped_by"] == "score"
    assert ray.is_initialized()


def test_an_environment_that_a_node_lacks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("only_here")
    vars(module)["make"] = Corridor
    monkeypatch.setitem(sys.modules, "only_here", module)  # of this process, where the learner runs
    with pytest.raises(EnvironmentFault, match=r"only_here.* \(on node [\d.]+ \(\w{6}\)\)$"):
        headrace.train(
            "only_here:make",
            algorithm=SMALL,
            topology=Apex(actors=1),
            launcher=PATIENT,
            steps=1_000_000,
            run_dir=tmp_path / "run",
            quiet=True,
        )


def actor(index: int = 0, environment: str = "NoSuch-v0") -> ActorRole:
    settings = ActorSettings(environment, 0, 0, (0.1,), SMALL, 10, EnvironmentSpec((1,), "float32", 2))
    return ActorRole(index, settings, POLICY, REPLAY)


def test_a_process_that_is_killed_is_an_exit(bench: Bench) -> None:
    role = EvaluatorRole(0)
    bench.start(role)
    os.kill(bench.launcher.process_id(role), signal.SIGKILL)
    ended = bench.end()
    assert (ended.role, ended.fault, ended.node_lost) == (role, None, False)
    assert re.fullmatch(r"its process on node [\d.]+ \(\w{6}\) died", ended.reason)


def test_an_error_has_its_message_and_what_the_process_wrote(bench: Bench, tmp_path: Path) -> None:
    for name, data in POLICY.blobs(b"no graph", Stamp.now()).items():
        bench.server.publish(name, data)
    bench.launcher.start(actor())
    ended = bench.end()
    assert (ended.reason, ended.fault) == ("error", None)
    log = (tmp_path / "logs" / "actor-0.log").read_text()
    assert log.startswith("Traceback")
    assert ended.message.split(":")[0] in log


def test_a_role_without_room_waits_and_can_be_stopped(tmp_path: Path) -> None:
    bench = Bench(Ray(actor_cpus=1000), tmp_path)
    bench.launcher.start(actor())
    assert bench.launcher.poll() == []
    assert bench.launcher.place(actor()) is None
    bench.launcher.kill(actor())
    bench.launcher.start(actor())
    bench.launcher.stop([actor()])
    bench.close()


def test_a_lost_node_replaces_processes_that_have_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Ray(actor_cpus=8, wait_seconds=PATIENCE_SECONDS), tmp_path)
    running, waiting = actor(0), actor(1)
    bench.launcher.start(running)
    wait_for(lambda: not bench.launcher.poll() and bench.launcher.place(running))
    monkeypatch.setattr(Nodes, "lost", lambda _: frozenset())
    bench.launcher.start(waiting)
    bench.launcher.poll()
    stuck = bench.launcher._waiting[waiting.name].host  # as if Ray had placed it on the lost node
    monkeypatch.setattr(Nodes, "lost", lambda _: frozenset({"a" * 56}))
    bench.launcher.poll()
    with pytest.raises(RayActorError):
        ray.get(stuck.node.remote(), timeout=PATIENCE_SECONDS)
    bench.launcher.kill(running)
    wait_for(lambda: not bench.launcher.poll() and bench.launcher.place(waiting))
    bench.launcher.stop([waiting])
    bench.close()


def test_without_this_node_the_run_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Nodes, "own_died", True)
    with pytest.raises(LaunchError, match=r"^node .*, to which this process belongs, has left the cluster$"):
        bench.launcher.poll()


def test_no_room_in_time_is_one_line(tmp_path: Path) -> None:
    bench = Bench(Ray(actor_cpus=1000, wait_seconds=0.01), tmp_path)
    bench.launcher.start(actor())
    time.sleep(0.02)
    with pytest.raises(ConfigError, match=r"^no node of the cluster had room for 0\.01 s .*--wait-seconds.* 1000"):
        bench.launcher.poll()
    bench.launcher.stop([actor()])
    bench.close()


def test_roles_that_share_memory_need_room_on_this_node(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = SharedHandle("/dev/shm/none", "hogwild", 1, True)
    settings = WorkerSettings(actor().settings, 9, (vector,), None, 0)
    workers = [WorkerRole(index, settings) for index in range(9)]
    for role in workers[:8]:
        bench.launcher.start(role)
    with pytest.raises(ConfigError, match=r"^workers share memory with the learner, whose node has 8 CPUs: 9 of them"):
        bench.launcher.start(workers[8])
    bench.launcher.stop(workers)
    monkeypatch.setattr(client, "is_connected", lambda: True)
    with pytest.raises(
        ConfigError, match=r"^workers share memory with the learner, which is not on a node .*\(ray://\)"
    ):
        bench.launcher.start(workers[0])


def test_stopping_ends_the_processes(bench: Bench) -> None:
    role = EvaluatorRole(0)
    bench.start(role)
    assert bench.launcher.place(role)
    process = bench.launcher.process_id(role)
    bench.launcher.stop([role, EvaluatorRole(1)])
    wait_for(lambda: not Path(f"/proc/{process}").exists())
    assert bench.launcher.poll() == []


def test_a_cluster_that_does_not_answer_is_one_line() -> None:
    program = "from headrace.launch.ray import Ray\nwith Ray(ray_address='127.0.0.1:9').open(): pass"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert "ray_address is 127.0.0.1:9; it must be auto, HOST:PORT or ray://HOST:PORT" in ended.stderr.splitlines()[-1]


INTERRUPTED = """
import os, signal, sys
import ray
from headrace.launch.ray import Ray
from headrace.signals import interruptible

init, signals = ray.init, [signal.SIGINT, signal.SIGTERM]

def init_in_spite_of_signals(**options):
    os.kill(os.getpid(), signals[0])
    init(**options)

ray.init = init_in_spite_of_signals
for signals[0] in (signal.SIGINT, signal.SIGTERM):
    try:
        with interruptible(), Ray(ray_address="local").open():
            print("started")
    except KeyboardInterrupt:
        print("interrupted", ray.is_initialized())
"""


def test_an_interrupt_while_a_cluster_is_started_leaves_no_process() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # a short path, for Ray's sockets
        environment = {**os.environ, "RAY_TMPDIR": folder}
        command = [sys.executable, "-c", INTERRUPTED]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert ended.stdout == "interrupted False\n" * 2, ended.stderr
        assert list(Path(folder).rglob("raylet.out")), "no cluster was started there"
        wait_for(lambda: not users(folder), said=lambda: users(folder))


def users(folder: str) -> list[str]:
    """Processes that have a file of this folder open, as all of a cluster have their logs."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(os.readlink(each).startswith(folder) for each in (process / "fd").iterdir()):
                found.append((process / "cmdline").read_text())
    return found


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for module in [name for name in sys.modules if name.startswith("headrace.launch.ray")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(
        ConfigError, match=r"launcher is ray, which needs the package ray: pip install 'headrace\[ray\]'"
    ):
        Ray().open()


def test_a_server_on_an_unknown_node_is_one_line() -> None:
    with (
        pytest.raises(ConfigError, match=r"^server_node is 10.0.0.99; it must be the address of a node .*: [\d.]+$"),
        Ray(server_node="10.0.0.99").open(),
    ):
        pass


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"server_data": Path("data")}, r"^server_data is data; it must be an absolute path"),
        ({"server_data": Path("/data")}, r"^server_data is /data; it must be left out without a server_node"),
        ({"wait_seconds": 0.0}, r"^wait_seconds is 0"),
    ],
)
def test_settings_that_no_cluster_takes(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Ray(**config)


@pytest.mark.parametrize(
    ("topology", "server", "said"),
    [
        (Serial(), ServerConfig(), r"^server_node is given and topology is serial, which uses no server$"),
        (
            Apex(actors=1),
            ServerConfig("tcp://10.0.0.1:7447"),
            r"^server is tcp://10.0.0.1:7447 and server_node is given",
        ),
    ],
)
def test_a_server_node_that_the_run_has_no_use_for(topology: Topology, server: ServerConfig, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RunConfig("CartPole-v1", SMALL, topology, server=server, launcher=Ray(server_node="10.0.0.1"))


def test_a_cluster_of_another_version_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(**_: object) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.1\n    Python: 3.8")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", differ)
    with (
        pytest.raises(
            ConfigError, match=r"^the Ray cluster at auto can't be used .*: Version mismatch: .* Python: 3.8 \(test_ray"
        ),
        Ray(ray_address="auto").open(),
    ):
        pass


@pytest.mark.parametrize(
    ("content", "said"),
    [("[1]", "it must be a YAML file"), ("{", "it can't be read"), (None, "it must be a YAML file")],
)
def test_a_runtime_environment_that_is_none(
    content: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "environment.yaml"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match=f"^ray_runtime_env is {file}; {said}"), Ray(ray_runtime_env=file).open():
        pass
