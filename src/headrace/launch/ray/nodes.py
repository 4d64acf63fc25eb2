"""The nodes of a Ray cluster, and which of them are gone."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayError

__all__ = ["Nodes"]

_PERIOD_SECONDS = 0.5
_CLOSE_SECONDS = 5.0
_CONNECT_SECONDS = 1.0
_REFUSED_SECONDS = 1.5
"""How long a node's raylet must refuse connections: its process is gone."""
_SILENT_SECONDS = 11.0
"""How long a node must not answer: longer than the network outages that a run is to survive without a restart."""


class _Node(NamedTuple):
    address: str
    port: int
    cpus: float
    alive: bool


class Nodes:
    """Watches the nodes in a separate thread, so that a lost node is noticed before Ray notices it (about 15 s).

    Ray's own list is the basis. In addition, a node whose raylet has accepted a connection is lost if it refuses others
    for 1.5 s, or does not answer for 11 s; raylets that this machine can't reach at all are left to Ray. Any thread may
    call the methods, none of which waits.
    """

    def __init__(
        self,
        list_nodes: Callable[[], Iterable[dict[str, Any]]] = ray.nodes,
        own: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._list_nodes = list_nodes
        self._clock = clock
        self.own = own or str(ray.get_runtime_context().get_node_id())
        """The id of this process's node."""
        self._reached: set[str] = set()
        self._refused: dict[str, tuple[float, float]] = {}  # first and last time, by the node's id
        self._silent: dict[str, tuple[float, float]] = {}
        self._nodes = self._listed()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nodes", daemon=True)
        self._thread.start()

    def name(self, node: str) -> str:
        """A node as messages name it: its address and the beginning of its id."""
        known = self._nodes.get(node)
        return f"node {known.address} ({node[:6]})" if known else f"node {node[:6]}"

    def cpus(self, node: str) -> float:
        """CPUs of a node, whether reserved or not; 0 if it is unknown."""
        known = self._nodes.get(node)
        return known.cpus if known else 0.0

    def lost(self) -> frozenset[str]:
        """The nodes that are gone, or seem to be."""
        dead = {node for node, known in self._nodes.items() if not known.alive}
        refused = {node for node, (first, last) in [*self._refused.items()] if last - first >= _REFUSED_SECONDS}
        silent = {node for node, (first, last) in [*self._silent.items()] if last - first >= _SILENT_SECONDS}
        return frozenset((dead | refused | silent) - {self.own})

    @property
    def own_died(self) -> bool:
        """Whether Ray calls this process's node dead, without which nothing more can be started."""
        known = self._nodes.get(self.own)
        return known is not None and not known.alive

    def close(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join(_CLOSE_SECONDS)  # it must not call Ray after the connection is closed

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            with contextlib.suppress(RayError, ConnectionError, RuntimeError):  # the list may be out of reach
                self._nodes = self._listed()
            for node, known in self._nodes.items():
                if known.alive and node != self.own:
                    self._probe(node, known)

    def _listed(self) -> dict[str, _Node]:
        return {
            each["NodeID"]: _Node(
                each["NodeManagerAddress"], each["NodeManagerPort"], each["Resources"].get("CPU", 0.0), each["Alive"]
            )
            for each in self._list_nodes()
        }

    def _probe(self, node: str, known: _Node) -> None:
        begin = self._clock()
        try:
            socket.create_connection((known.address, known.port), _CONNECT_SECONDS).close()
        except ConnectionRefusedError:
            if node in self._reached:
                self._refused[node] = self._refused.get(node, (begin, begin))[0], self._clock()
        except OSError:
            if node in self._reached:
                self._silent[node] = self._silent.get(node, (begin, begin))[0], self._clock()
        else:
            self._reached.add(node)
            self._refused.pop(node, None)
            self._silent.pop(node, None)
