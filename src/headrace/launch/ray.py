"""Roles as actors of a Ray cluster, on any of its nodes.

Ray places the processes and notices their deaths. Experience, parameters and reports go through the run's server, never
through Ray's object store. Ray restarts nothing by itself: the run's supervisor does, with a new generation.
"""

import contextlib
import dataclasses
import os
import secrets
import socket
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import ClosedError, ConfigError, HeadraceError
from headrace.fields import read_json, write_json
from headrace.launch.base import FAULTS, Exit, RoleStart, Site, error_line, run_role
from headrace.launch.processes import SINGLE_THREAD
from headrace.roles.base import Role, Stop
from headrace.servers import Endpoint

if TYPE_CHECKING:
    from headrace.launch.config import Ray

try:
    import ray
    from ray.exceptions import RayActorError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy
except ImportError as error:
    raise ConfigError(f"launcher is ray, which needs the package ray: pip install 'headrace[ray]' ({error})") from None

__all__ = ["RayLauncher", "open_cluster"]

_GRACE_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_RECONNECT_SECONDS = 60.0


class _Host:
    """A role in the process of a Ray actor: one of its threads runs it, another one asks it to stop."""

    def __init__(self) -> None:
        self._stop = Stop()

    def node(self) -> str:
        """The id of the node on which the process runs."""
        return str(ray.get_runtime_context().get_node_id())

    def process_id(self) -> int:
        """The id of the process."""
        return os.getpid()

    def run(self, start: str) -> tuple[str, bool, str]:
        """Runs a role; returns the reason of its end, whether that is a fault, and a message."""
        given = read_json(RoleStart, start, "a role's start")
        try:
            run_role(given.role, given.endpoint, self._stop)
        except ClosedError as closed:
            return "ended", False, str(closed)
        except HeadraceError as error:
            return "error", isinstance(error, FAULTS), str(error)
        except Exception as error:
            return "error", False, error_line(error)
        return "ended", False, "without an error"

    def stop(self) -> None:
        """Asks the role to stop."""
        self._stop.set()


class _Running(NamedTuple):
    role: Role
    host: Any  # of _Host
    node: Any  # reference to the id of its node
    end: Any  # reference to what run() returns


class RayLauncher:
    """Implements `Launcher`: one Ray actor for each role, which Ray never restarts by itself."""

    def __init__(self, endpoint: Endpoint, config: "Ray") -> None:
        secret = endpoint.secret()  # other nodes do not have the token file
        self._endpoint = dataclasses.replace(endpoint, token=secret.decode() if secret else "", token_file="")
        self._options = {
            "num_cpus": config.actor_cpus,
            "num_gpus": 0,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 2,  # run() and stop()
            "scheduling_strategy": "SPREAD" if config.placement == "spread" else "DEFAULT",
            "runtime_env": {"env_vars": {**SINGLE_THREAD, "CUDA_VISIBLE_DEVICES": ""}},
        }
        self._group = ray.util.get_current_placement_group()  # that of a trial, which has room for all roles
        self._running: dict[str, _Running] = {}

    def start(self, role: Role) -> None:
        """Asks Ray for a process; the role starts as soon as a node has room for it."""
        options = self._options
        if self._group is not None:
            options = {**options, "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group)}
        elif role.shares_memory:
            here = ray.get_runtime_context().get_node_id()
            options = {**options, "scheduling_strategy": NodeAffinitySchedulingStrategy(here, soft=False)}
        host = ray.remote(_Host).options(**options).remote()
        end = host.run.remote(write_json(RoleStart(role, self._endpoint)))
        self._running[role.name] = _Running(role, host, host.node.remote(), end)

    def pending(self, role: Role) -> bool:
        """Whether no node has had room for a role yet."""
        ready, _ = ray.wait([self._running[role.name].node], timeout=0)
        return not ready

    def poll(self) -> list[Exit]:
        """Roles that ended by themselves since the last call."""
        ends = {running.end: running for running in self._running.values()}
        if not ends:
            return []
        ready, _ = ray.wait(list(ends), num_returns=len(ends), timeout=0)
        exits = []
        for end in ready:
            running = ends[end]
            del self._running[running.role.name]
            exits.append(self._exit(running))
        return exits

    def process_id(self, role: Role) -> int:
        """The process of a role, on its node."""
        number: int = ray.get(self._running[role.name].host.process_id.remote())
        return number

    def kill(self, role: Role) -> None:
        """Kills the process of a role."""
        ray.kill(self._running.pop(role.name).host)

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to stop, and kills the processes of those that still run after 5 seconds."""
        stopping = [self._running.pop(role.name) for role in roles if role.name in self._running]
        for running in stopping:
            running.host.stop.remote()
        if stopping:
            ray.wait([running.end for running in stopping], num_returns=len(stopping), timeout=_GRACE_SECONDS)
        for running in stopping:
            with contextlib.suppress(RayError):
                ray.kill(running.host)

    def _exit(self, running: _Running) -> Exit:
        try:
            reason, fault, message = ray.get(running.end)
        except RayActorError as error:
            return Exit(running.role, self._cause(running), False, error_line(error))
        except RayError as error:
            return Exit(running.role, "error", False, error_line(error))
        return Exit(running.role, reason, fault, message)

    @staticmethod
    def _cause(running: _Running) -> str:
        """Whether the process died alone or with its node."""
        with contextlib.suppress(RayError):
            node = ray.get(running.node, timeout=0)
            if not any(each["Alive"] for each in ray.nodes() if each["NodeID"] == node):
                return f"its node {node[:8]} died"
        return "its process died"


def _require_listener(address: str) -> None:
    """Raises ConfigError if nothing listens at HOST:PORT; Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(f"ray_address is {address}; it must be auto or HOST:PORT of a Ray cluster: {error}") from None


@contextlib.contextmanager
def open_cluster(config: "Ray") -> Iterator[Site]:
    """Connects to a cluster, or starts one on this machine, which ends with the context."""
    mine = not ray.is_initialized()
    if mine:
        if config.ray_address not in (None, "auto"):
            _require_listener(config.ray_address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster that is started here sends no statistics
        try:
            ray.init(address=config.ray_address, log_to_driver=False, configure_logging=False, include_dashboard=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            where = config.ray_address or "this machine"
            raise ConfigError(f"ray_address is {where}; a Ray cluster must answer there: {error_line(error)}") from None
    try:
        address = f"tcp://{ray.util.get_node_ip_address()}:0"
        yield Site(
            lambda endpoint, logs: RayLauncher(endpoint, config), address, secrets.token_hex(32), _RECONNECT_SECONDS
        )
    finally:
        if mine:
            ray.shutdown()
