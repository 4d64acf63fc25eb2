"""Actors or workers started separately from their run, on this machine or another, and their supervision."""

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headrace.errors import ClosedError, ConfigError, LaunchError, StorageError
from headrace.launch.base import Exit, Launcher
from headrace.launch.deaths import Deaths, too_many_deaths
from headrace.launch.guard import Guard
from headrace.launch.processes import ProcessLauncher
from headrace.launch.relay import Relay
from headrace.roles.base import RUN, Role
from headrace.roles.separate_role import RunNotice, SeparateRole, await_notice
from headrace.servers import Endpoint, RoleServer, connect_role, shown
from headrace.signals import interruptible
from headrace.types import ActingKind

__all__ = ["run_separate"]

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 2.0


def run_separate(
    endpoint: Endpoint,
    kind: ActingKind,
    count: int,
    logs: Path,
    say: Callable[[str], object],
    launcher: Callable[[Endpoint, Path], Launcher] = ProcessLauncher,
) -> str:
    """Waits for the run's learner, then acts for it; returns "end" with the run, or "interrupt" after a signal.

    Starts `count` actors or workers. A restarted learner has new settings and older parameters, so they are restarted
    too. `say` gets messages for the user. Raises ConfigError if the run has no slots for this kind, or if one of them
    reports a user's mistake, LaunchError for the third death within a minute and if the server is gone, and
    StorageError if logs can't be written.
    """
    _make(logs)
    try:
        with interruptible(), Guard(f"headrace {kind}"):
            with _warn_if_slow(endpoint, say):
                server = connect_role(endpoint)
            try:
                notice = _await_slots(server, endpoint.run, kind, say)
                say(f"{_counted(kind, count)} in {notice.environment}; logs: {logs}")
                if notice.slots < count:
                    say(f"the run has slots for {_counted(kind, notice.slots)}; the others wait for a free one")
                while True:
                    with _relay(endpoint, count, notice) as relay:
                        passed_on = relay.endpoint if relay else None
                        roles = [SeparateRole(index, kind, passed_on) for index in range(count)]
                        if _supervise(server, launcher(endpoint, logs), roles, notice, relay, say):
                            break
                    say(f"the learner was restarted; restarting its {kind}s")
                    notice = _await_slots(server, endpoint.run, kind, say)
                say("the run has ended")
                return "end"
            except ClosedError as error:
                raise LaunchError(
                    f"the server at {shown(endpoint.address)} is gone: {error}; start the {kind}s again once it is back"
                ) from error
            finally:
                server.close()
    except KeyboardInterrupt:
        return "interrupt"


def _await_slots(server: RoleServer, run: str, kind: ActingKind, say: Callable[[str], object]) -> RunNotice:
    """Waits for the run's learner; raises ConfigError if it has no slots for separately started roles of this kind."""
    notice = await_notice(server, lambda: False, say)
    assert notice is not None
    if not notice.slots:
        raise ConfigError(
            f"the run's learner starts its own {notice.kind}s; headrace learner trains with separately started ones"
        )
    if notice.kind != kind:
        raise ConfigError(f"run {run} has {notice.kind}s, not {kind}s: headrace {notice.kind} starts them")
    return notice


def _make(logs: Path) -> None:
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't write {logs}: {error.strerror}") from error


@contextlib.contextmanager
def _warn_if_slow(endpoint: Endpoint, say: Callable[[str], object]) -> Iterator[None]:
    """Says that no server answers if the body takes longer than two seconds."""
    text = f"no server answers at {shown(endpoint.address)} yet; retrying for {endpoint.reconnect_seconds:g} s"
    timer = threading.Timer(_PATIENCE_SECONDS, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def _relay(endpoint: Endpoint, count: int, notice: RunNotice) -> Iterator[Relay | None]:
    """A relay that fetches every policy once for all actors; None for a single actor, which polls the server itself.

    Also None for workers, which install no policies.
    """
    if count == 1 or notice.policy is None:
        yield None
        return
    with contextlib.closing(Relay(connect_role(endpoint), notice.policy)) as relay:
        yield relay


def _supervise(
    server: RoleServer,
    launcher: Launcher,
    started: Sequence[Role],
    notice: RunNotice,
    relay: Relay | None,
    say: Callable[[str], object],
) -> bool:
    """Starts roles and restarts those that die; returns True at the run's end, False when the learner starts again.

    A role that ends while there is no notice is not counted as a death: the server or the learner is just starting.
    """
    roles = {role.name: role for role in started}
    deaths = {name: Deaths() for name in roles}
    ended: list[Exit] = []
    learner_away, checked = False, b""  # the notice that was checked last
    try:
        for role in roles.values():
            launcher.start(role)
        while True:
            time.sleep(_POLL_SECONDS)
            ended += launcher.poll()
            found = server.fetch(RUN)  # after the exits: a run publishes its end before it closes its table
            if found is not None and not found[1]:
                return True
            if relay is not None:
                relay.check()
            if found is None:
                learner_away = True
                continue
            if found[1] != checked and RunNotice.from_json(found[1]).start != notice.start:
                return False
            checked = found[1]
            for each in ended:
                name = each.role.name
                roles[name] = _again(each.role) if learner_away else _replacement(each, deaths[name], notice, say)
                launcher.start(roles[name])
            ended, learner_away = [], False
    finally:
        launcher.stop(roles.values())


def _replacement(ended: Exit, deaths: Deaths, notice: RunNotice, say: Callable[[str], object]) -> Role:
    """The replacement of a role that ended; raises if it must not be restarted."""
    if ended.fault:
        raise ended.fault(ended.message)
    again = deaths.add(notice.hang_seconds if ended.hung else 0.0)
    say(f"{ended.role.name} died ({ended.reason}): {ended.message}" + ("; restarting it" if again else ""))
    if not again:
        raise too_many_deaths(ended)
    return _again(ended.role)


def _again(role: Role) -> Role:
    return dataclasses.replace(role, generation=role.generation + 1)


def _counted(kind: ActingKind, count: int) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"
