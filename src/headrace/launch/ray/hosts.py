"""What runs in the processes of a Ray cluster: a role, or the relay of a node's actors."""

import os
import socket
import tempfile
import time
import traceback
from typing import NamedTuple

import ray

from headrace._native import Server
from headrace.clock import new_event
from headrace.errors import ClosedError, HeadraceError, error_line
from headrace.fields import read_json, write_json
from headrace.launch.base import RoleStart, fault_of, run_role
from headrace.launch.guard import Guard
from headrace.launch.relay import Relay
from headrace.machine import raise_descriptor_limit, server_memory_bytes
from headrace.roles.handles import PolicyHandle
from headrace.servers import Endpoint, connect_role

__all__ = ["End", "Host", "RelayHost", "ServerHost", "free_port"]

_OUTPUT_BYTES = 1 << 16
_LISTEN_SECONDS = 30.0


class End(NamedTuple):
    """How a role ended in its process."""

    reason: str
    fault: type[HeadraceError] | None  # see Exit
    message: str
    output: bytes  # the last that the process wrote


class Host:
    """A role in the process of a Ray actor: one of its threads runs it, another one asks it to stop."""

    def __init__(self) -> None:
        self._stop = new_event()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        for descriptor in (1, 2):
            os.dup2(self._output.fileno(), descriptor)
        self._guard = Guard("a role").__enter__()  # never left: what the role's environments leave behind is ended
        self._guard.mark_reported()

    def node(self) -> str:
        """The id of the node on which the process runs."""
        return str(ray.get_runtime_context().get_node_id())

    def process_id(self) -> int:
        """The id of the process."""
        return os.getpid()

    def run(self, start: str, relay: str | None) -> End:
        """Runs a role, with the policies of a relay on this node if one is given, until it ends."""
        try:
            given = read_json(RoleStart, start, "a role's start")
            role = given.role if relay is None else given.role.relayed(read_json(Endpoint, relay, "a relay"))
            run_role(role, given.endpoint, self._stop)
        except ClosedError as closed:
            return self._end("ended", str(closed))
        except HeadraceError as error:
            return self._end("error", str(error), fault=fault_of(error))
        except Exception as error:
            traceback.print_exc()
            return self._end("error", error_line(error))
        return self._end("ended", "without an error")

    def stop(self) -> None:
        """Asks the role to stop."""
        self._stop.set()

    def _end(self, reason: str, message: str, *, fault: type[HeadraceError] | None = None) -> End:
        size = self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, size - _OUTPUT_BYTES))
        return End(reason, fault, message, self._output.read())


class RelayHost:
    """The relay of a node's actors: every policy crosses the network once for all of them."""

    def __init__(self, endpoint: str, policy: PolicyHandle) -> None:
        self._relay = Relay(connect_role(read_json(Endpoint, endpoint, "an endpoint")), policy)

    def endpoint(self) -> str:
        """Where the node's actors find the policies."""
        return write_json(self._relay.endpoint)

    def watch(self) -> None:
        """Returns or raises when the relay can no longer forward policies."""
        while True:
            self._relay.check()
            time.sleep(1.0)


class ServerHost:
    """The run's server. Ray restarts it on the same node, where it listens on the same port again."""

    def __init__(self, address: str, token: str, data: str) -> None:
        raise_descriptor_limit()
        self._server = Server(data=data, memory_bytes=server_memory_bytes(), token=token.encode())
        deadline = time.monotonic() + _LISTEN_SECONDS
        while True:  # the port of a process that was killed is free a little later
            try:
                self._server.listen(address)
                return
            except HeadraceError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def notices(self) -> list[str]:
        """What the server found in its data directory, and could not use or save."""
        return self._server.notices()

    def close(self) -> list[str]:
        """Writes what is in memory to the data directory, and ends the server; returns all its notices."""
        notices = self._server.notices()
        try:
            self._server.close()
        except HeadraceError as error:
            notices.append(f"the server's data could not be saved: {error}")
        return notices


def free_port(address: str) -> int:
    """A port of this node that is free now."""
    with socket.create_server((address, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
