"""Starts the roles of a simulated run."""

import contextlib
import itertools
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from headrace.clock import Event, inhabit
from headrace.errors import ClosedError, HeadraceError, error_line
from headrace.fields import read_json, write_json
from headrace.launch.base import Exit, RoleStart, Site, fault_of, run_role
from headrace.launch.simulated.costs import Costs
from headrace.launch.simulated.faults import Fault, check_roles, plan_faults
from headrace.launch.simulated.link import Link
from headrace.launch.simulated.world import Process, SimulatedWorld, Task
from headrace.roles.base import Role
from headrace.servers import Endpoint
from headrace.servers.simulated import SCHEME, SimulatedServer, find_server

__all__ = ["SimulatedLauncher", "open_simulation"]

_GRACE_SECONDS = 5.0
_numbers = itertools.count()


class _Running(NamedTuple):
    role: Role
    process: Process
    task: Task
    stop: Event


class SimulatedLauncher:
    """Implements `Launcher`."""

    def __init__(self, world: SimulatedWorld, endpoint: Endpoint, logs: Path, faults: tuple[Fault, ...]) -> None:
        self._world = world
        self._endpoint = endpoint
        self._logs = logs
        self._running: dict[str, _Running] = {}
        self._exits: list[Exit] = []
        if faults:
            world.start(world.process("faults"), lambda: plan_faults(world, faults, self.fail, self.server), "faults")

    @property
    def server(self) -> SimulatedServer:
        """The run's server."""
        return find_server(self._endpoint.address)

    def start(self, role: Role) -> None:
        """Starts a role in a simulated process."""
        process, stop = self._world.process(role.name), self._world.new_event()
        record = write_json(RoleStart(role, self._endpoint))
        task = self._world.start(process, lambda: self._run(record, process, stop), "main")
        self._running[role.name] = _Running(role, process, task, stop)

    def place(self, role: Role) -> str:
        """Empty: this machine."""
        return ""

    def poll(self) -> list[Exit]:
        """Roles that ended by themselves since the last call."""
        exits, self._exits = self._exits, []
        return exits

    def kill(self, role: Role) -> None:
        """Kills a role."""
        self._world.end(self._running.pop(role.name).process)

    def fail(self, name: str) -> None:
        """Kills a role as a fault; poll() reports it. A role that does not run is left alone."""
        running = self._running.pop(name, None)
        if running is not None:
            self._world.end(running.process)
            self._exits.append(Exit(running.role, "killed by SIGKILL", None, "a simulated fault"))

    def stop(self, roles: Iterable[Role]) -> None:
        """Asks these roles to end, and kills those still running after 5 seconds."""
        names = {role.name for role in roles}
        self._exits = [ended for ended in self._exits if ended.role.name not in names]
        ending = [self._running.pop(name) for name in list(self._running) if name in names]
        for running in ending:
            running.stop.set()
            self._world.interrupt(running.task, ClosedError("asked to stop"))
        deadline = self._world.monotonic() + _GRACE_SECONDS
        for running in ending:
            running.task.join(max(0.0, deadline - self._world.monotonic()))
            self._world.end(running.process)

    def _run(self, record: str, process: Process, stop: Event) -> None:
        status, message = "exit 0", "it wrote nothing"
        fault = None
        given = read_json(RoleStart, record, "a role's start")
        try:
            self._world.spend("start")
            run_role(given.role, given.endpoint, stop)
        except ClosedError:
            pass
        except HeadraceError as error:
            fault = fault_of(error)
            status, message = "exit 2" if fault else "exit 1", str(error)
        except Exception as error:
            status, message = "exit 1", error_line(error)
            self._write_log(given.role, error)
        running = self._running.get(given.role.name)
        if running is not None and running.process is process:
            del self._running[given.role.name]
            self._exits.append(Exit(given.role, status, fault, message))
        self._world.end(process)

    def _write_log(self, role: Role, error: Exception) -> None:
        with contextlib.suppress(OSError):
            self._logs.mkdir(exist_ok=True)
            with (self._logs / f"{role.name.replace(' ', '-')}.log").open("a") as log:
                traceback.print_exception(error, file=log)


@contextlib.contextmanager
def open_simulation(cores: int, link: Link, costs: Costs, faults: tuple[Fault, ...], seed: int) -> Iterator[Site]:
    """A context in which this thread, and the roles that it starts, live in simulated time."""
    world = SimulatedWorld(cores, link, costs, seed)
    with inhabit(world):
        try:
            yield Site(
                lambda endpoint, logs: SimulatedLauncher(world, endpoint, logs, faults),
                address=f"{SCHEME}{next(_numbers)}",
                progress=world.progress,
                check_roles=lambda names: check_roles(faults, names),
            )
        finally:
            world.close()
