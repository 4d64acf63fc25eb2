"""Actors started apart from their run, on this machine or another, and looked after."""

import contextlib
import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headrace.errors import ClosedError, ConfigError, LaunchError
from headrace.launch.base import Exit, Launcher
from headrace.launch.deaths import Deaths, given_up
from headrace.launch.processes import ProcessLauncher
from headrace.roles.base import RUN, Role
from headrace.roles.volunteer import await_notice
from headrace.servers import Endpoint, RoleServer, connect_role

__all__ = ["run_actors"]

_POLL_SECONDS = 0.5


def run_actors(
    endpoint: Endpoint,
    actors: int,
    logs: Path,
    say: Callable[[str], object],
    launcher: Callable[[Endpoint, Path], Launcher] = ProcessLauncher,
) -> str:
    """Waits for the run's learner, then acts for it; returns "end" with the run, or "interrupt" (Ctrl-C, SIGTERM).

    `say` hears what a user should know. Raises ConfigError where an actor meets a user's mistake, LaunchError for the
    third death in a minute and for a server that is gone.
    """
    try:
        with _terminable():
            server = connect_role(endpoint)
            try:
                notice = await_notice(server, lambda: False, say)
                assert notice is not None
                say(f"{actors} {'actor' if actors == 1 else 'actors'} in {notice.environment}; logs: {logs}")
                _look_after(server, launcher(endpoint, logs), actors, say)
                say("the run has ended")
                return "end"
            except ClosedError as error:
                raise LaunchError(
                    f"the server at {endpoint.address} is gone: {error}; start the actors again once it is back"
                ) from error
            finally:
                server.close()
    except KeyboardInterrupt:
        return "interrupt"


def _look_after(server: RoleServer, launcher: Launcher, actors: int, say: Callable[[str], object]) -> None:
    """Starts the actors, and again those that die, until the run has ended."""
    roles = {role.name: role for role in (Role("volunteer", index, "") for index in range(actors))}
    deaths = {name: Deaths() for name in roles}
    try:
        for role in roles.values():
            launcher.start(role)
        while True:
            time.sleep(_POLL_SECONDS)
            exits = launcher.poll()
            found = server.fetch(RUN)  # after the exits: a run that ends says so before it closes its table
            if found is not None and not found[1]:
                return
            for ended in exits:
                name = ended.role.name
                roles[name] = _renew(ended, deaths[name], say)
                launcher.start(roles[name])
    finally:
        launcher.stop(roles.values())


def _renew(ended: Exit, deaths: Deaths, say: Callable[[str], object]) -> Role:
    """What takes the place of an actor that ended; raises where nothing should."""
    if ended.fault:
        raise ConfigError(ended.message)
    again = deaths.add()
    say(f"{ended.role.name} died ({ended.reason}): {ended.message}" + ("; it is started again" if again else ""))
    if not again:
        raise given_up(ended)
    return dataclasses.replace(ended.role, generation=ended.role.generation + 1)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, too, raises KeyboardInterrupt, where signals can be had: in the main thread."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
