"""Roles as actors of a Ray cluster, on any of its nodes.

Ray places the processes and notices their deaths. Experience, parameters and reports go through the run's server, never
through Ray's object store. Ray restarts nothing by itself: the run's supervisor does, with a new generation.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.client import ray as client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from headrace.errors import ConfigError, LaunchError, StorageError
from headrace.fields import write_json
from headrace.launch.base import Exit, RoleStart
from headrace.launch.processes import SINGLE_THREAD
from headrace.launch.ray.hosts import Host, RelayHost
from headrace.launch.ray.nodes import Nodes
from headrace.roles.base import Role
from headrace.servers import Endpoint

if TYPE_CHECKING:
    from headrace.launch.ray.config import Ray

__all__ = ["RayLauncher"]

_GRACE_SECONDS = 5.0
_DETAIL_CHARACTERS = 200


class _Waiting(NamedTuple):
    role: Role
    host: Any  # of Host
    node: Any  # reference to the id of its node


class _Running(NamedTuple):
    role: Role
    host: Any  # of Host
    node: str
    end: Any  # reference to what run() returns


class _RelayActor(NamedTuple):
    host: Any  # of RelayHost
    endpoint: Any  # reference
    end: Any  # reference


class RayLauncher:
    """Implements `Launcher`: one Ray actor for each role, which Ray never restarts by itself.

    `own` says whether the cluster belongs to this run: its machine is then divided as if there were no cluster, without
    reserving CPUs. The last output of a role is written to `logs/<kind>-<index>.log` when the role ends.
    """

    def __init__(self, endpoint: Endpoint, logs: Path, config: "Ray", *, own: bool = False) -> None:
        self._endpoint = dataclasses.replace(endpoint, token=_token(endpoint), token_file="")
        self._logs = logs
        self._config = config
        self._own = own
        self._options = {
            "num_gpus": 0,
            "max_restarts": 0,
            "max_task_retries": 0,
            "max_concurrency": 2,  # run() and stop()
            "runtime_env": {"env_vars": {**SINGLE_THREAD, "CUDA_VISIBLE_DEVICES": ""}},
        }
        self._waiting: dict[str, _Waiting] = {}
        self._running: dict[str, _Running] = {}
        self._relays: dict[str, _RelayActor] = {}
        self._nodes = Nodes()
        self._known_lost: frozenset[str] = frozenset()
        self._sharing: set[str] = set()  # names of roles that share memory with this process
        self._asked = math.inf  # time.monotonic() of the first elastic role's start
        self._had_room = False

    def start(self, role: Role) -> None:
        """Asks Ray for a process; the role starts as soon as a node has room for it.

        Raises ConfigError if it must run on this node, together with others, and this node is too small.
        """
        if role.elastic:
            self._asked = min(self._asked, time.monotonic())
        cpus = self._config.actor_cpus if role.elastic and not self._own else 0
        strategy: Any = "SPREAD" if self._config.placement == "spread" else "DEFAULT"
        group = ray.util.get_current_placement_group()  # that of a trial, which has room for all roles
        if group is not None:
            strategy = PlacementGroupSchedulingStrategy(group)
        elif role.shares_memory:
            self._require_room_here(role, cpus)
            strategy = NodeAffinitySchedulingStrategy(self._nodes.own, soft=False)
        options = {**self._options, "num_cpus": cpus, "scheduling_strategy": strategy}
        lost = self._nodes.lost()
        if lost and not role.shares_memory and group is None:
            options["label_selector"] = {"ray.io/node-id": f"!in({','.join(lost)})"}
        host = ray.remote(Host).options(**options).remote()
        self._waiting[role.name] = _Waiting(role, host, host.node.remote())

    def place(self, role: Role) -> str | None:
        """The node of a role; None while no node has room for it."""
        running = self._running.get(role.name)
        return self._nodes.name(running.node) if running else None

    def poll(self) -> list[Exit]:
        """Roles that ended by themselves since the last call.

        Raises ConfigError if none gets room in time, LaunchError if this process's node has died.
        """
        if self._nodes.own_died:
            raise LaunchError(
                f"{self._nodes.name(self._nodes.own)}, to which this process belongs, has left the cluster"
            )
        exits = [*self._start_placed(), *self._collect_ended(), *self._collect_lost()]
        self._ask_again()
        self._replace_relays()
        waits = any(waiting.role.elastic for waiting in self._waiting.values())
        if waits and not self._had_room and time.monotonic() - self._asked > self._config.wait_seconds:
            raise ConfigError(
                f"no node of the cluster had room for {self._config.wait_seconds:g} s (--wait-seconds): each process "
                f"of the run needs {self._config.actor_cpus:g} CPU (--actor-cpus), and time to install its runtime "
                "environment"
            )
        return exits

    def process_id(self, role: Role) -> int:
        """The process of a role that runs, on its node."""
        number: int = ray.get(self._running[role.name].host.process_id.remote())
        return number

    def kill(self, role: Role) -> None:
        """Kills the process of a role."""
        _kill((self._running.pop(role.name, None) or self._waiting.pop(role.name)).host)

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to stop, and kills the processes of those that still run after 5 seconds."""
        stopping = []
        for role in roles:
            if role.name in self._waiting:
                _kill(self._waiting.pop(role.name).host)
            elif role.name in self._running:
                stopping.append(self._running.pop(role.name))
        try:
            with contextlib.suppress(RayError, ConnectionError):
                self._await(stopping)
        finally:  # also after an interrupt
            for running in stopping:
                _kill(running.host)
        if not self._running:
            for relay in self._relays.values():
                _kill(relay.host)
            self._relays.clear()

    def _await(self, stopping: Sequence[_Running]) -> None:
        """Asks the processes to stop, and writes the output of those that do so in time."""
        for running in stopping:
            running.host.stop.remote()
        ends = [running.end for running in stopping]
        ended, _ = ray.wait(ends, num_returns=len(ends), timeout=_GRACE_SECONDS) if ends else ([], [])
        for running in stopping:
            if running.end in ended:
                with contextlib.suppress(RayError, StorageError):
                    self._write_output(running.role, ray.get(running.end).output)

    def close(self) -> None:
        """Ends the watch over the nodes."""
        self._nodes.close()

    def _require_room_here(self, role: Role, cpus: float) -> None:
        advice = "on a node of the cluster with room for all of them, or use --topology parameter-server"
        if client.is_connected():
            raise ConfigError(
                f"{role.kind}s share memory with the learner, which is not on a node of the cluster (ray://); start "
                f"the run {advice}"
            )
        self._sharing.add(role.name)
        room = self._nodes.cpus(self._nodes.own)
        if len(self._sharing) * cpus > room:
            raise ConfigError(
                f"{role.kind}s share memory with the learner, whose node has {room:g} CPUs: {len(self._sharing)} of "
                f"them with {cpus:g} CPU each (--actor-cpus) do not fit; start the run {advice}"
            )

    def _start_placed(self) -> list[Exit]:
        """Runs roles whose processes have started; returns those whose processes can't start."""
        exits = []
        for waiting in _ready({waiting.node: waiting for waiting in self._waiting.values()}):
            del self._waiting[waiting.role.name]
            try:
                node = ray.get(waiting.node)
            except RayError as error:
                exits.append(self._start_failure(waiting.role, error))
                continue
            self._had_room = self._had_room or waiting.role.elastic
            start = write_json(RoleStart(waiting.role, self._endpoint))
            end = waiting.host.run.remote(start, self._relay(waiting.role, node))
            self._running[waiting.role.name] = _Running(waiting.role, waiting.host, node, end)
        return exits

    @staticmethod
    def _start_failure(role: Role, error: RayError) -> Exit:
        text = str(error)
        if "ModuleNotFoundError" in text or "ImportError" in text:
            cause = next(line for line in reversed(text.splitlines()) if "Error" in line).strip()
            return Exit(role, "error", ConfigError, f"a node of the cluster can't start {role.name}: {cause}")
        return Exit(role, "its process could not be started", None, _detail(error), node_lost=_is_node_death(error))

    def _collect_ended(self) -> list[Exit]:
        exits = []
        for running in _ready({running.end: running for running in self._running.values()}):
            del self._running[running.role.name]
            where = self._nodes.name(running.node)
            try:
                end = ray.get(running.end)
            except RayActorError as error:
                if _is_node_death(error) or running.node in self._nodes.lost():
                    exits.append(self._node_loss(running))
                else:
                    exits.append(Exit(running.role, f"its process on {where} died", None, _detail(error)))
            except RayError as error:
                exits.append(Exit(running.role, f"error on {where}", None, _detail(error)))
            else:
                self._write_output(running.role, end.output)
                message = f"{end.message} (on {where})" if end.fault else end.message
                exits.append(Exit(running.role, end.reason, end.fault, message))
            _kill(running.host)
        return exits

    def _collect_lost(self) -> list[Exit]:
        """Roles on nodes that are gone, which Ray notices only after many seconds."""
        lost = self._nodes.lost()
        ended = [running for running in self._running.values() if running.node in lost]
        for running in ended:
            del self._running[running.role.name]
            _kill(running.host)
        return [self._node_loss(running) for running in ended]

    def _ask_again(self) -> None:
        """Replaces processes that have not started when a node is lost: Ray may have placed them there."""
        before, self._known_lost = self._known_lost, self._nodes.lost()
        if self._known_lost <= before:
            return
        for waiting in list(self._waiting.values()):
            _kill(waiting.host)
            self.start(waiting.role)

    def _node_loss(self, running: _Running) -> Exit:
        message = f"{self._nodes.name(running.node)} left the cluster or does not answer"
        return Exit(running.role, "its node was lost", None, message, node_lost=True)

    def _relay(self, role: Role, node: str) -> Any:
        """A reference to the endpoint of the node's relay; None if the role needs none."""
        policy = role.relayed_policy
        if policy is None or node == self._nodes.own:
            return None
        if node not in self._relays:
            options = {**self._options, "num_cpus": 0}
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(node, soft=False)
            host = ray.remote(RelayHost).options(**options).remote(write_json(self._endpoint), policy)
            self._relays[node] = _RelayActor(host, host.endpoint.remote(), host.watch.remote())
        return self._relays[node].endpoint

    def _replace_relays(self) -> None:
        """Ends relays that failed: their actors end too, and get a new relay when they are started again."""
        failed = set(_ready({relay.end: node for node, relay in self._relays.items()}))
        for node in failed | (self._nodes.lost() & set(self._relays)):
            _kill(self._relays.pop(node).host)

    def _write_output(self, role: Role, output: bytes) -> None:
        if not output:
            return
        log = self._logs / f"{role.kind}-{role.index}.log"
        try:
            self._logs.mkdir(exist_ok=True)
            with log.open("ab") as file:
                file.write(output)
        except OSError as error:
            raise StorageError(f"can't write {log}: {error.strerror}") from error


def _ready(references: dict[Any, Any]) -> list[Any]:
    """The values of references that have arrived."""
    if not references:
        return []
    arrived, _ = ray.wait(list(references), num_returns=len(references), timeout=0)
    return [references[each] for each in arrived]


def _kill(host: Any) -> None:
    with contextlib.suppress(RayError, ConnectionError):  # ray:// loses its connection with the latter
        ray.kill(host)


def _token(endpoint: Endpoint) -> str:
    """The server's secret, since other nodes do not have the token file."""
    try:
        return (endpoint.secret() or b"").decode()
    except UnicodeDecodeError:
        raise ConfigError(
            f"token_file is {endpoint.token_file}; it must be UTF-8 text with launcher ray, which hands it to nodes"
        ) from None


def _is_node_death(error: RayError) -> bool:
    return "node has died" in str(error) or "node was terminated" in str(error)


def _detail(error: RayError) -> str:
    """What Ray says about a death, in one line."""
    text = str(error).rpartition("exit detail:")[2]
    return " ".join(text.split())[:_DETAIL_CHARACTERS]
