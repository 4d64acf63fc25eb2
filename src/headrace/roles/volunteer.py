"""An actor that is started apart from its run: all that it needs to know it learns from the server."""

import json
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from headrace.errors import ClosedError, ConfigError, ReplayError
from headrace.fields import read_json
from headrace.roles.base import RUN, Role, Stop
from headrace.roles.remote_actor import run_actor
from headrace.servers.base import RoleServer

__all__ = ["RunNotice", "await_notice", "claim_place", "run_volunteer"]

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
"""After so long without a learner, a line says what is awaited."""
_CLAIM_SECONDS = 5.0
"""For how long a predecessor's connection may still be closing."""
_SPARE_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class RunNotice:
    """What a learner tells actors that start apart; published under RUN as JSON."""

    environment: str
    hang_seconds: float
    start: str
    """Another one after every start of the learner; actors live no longer than the start that they began with."""
    actors: tuple[str, ...]
    """ActorSettings of every place as JSON; none where the learner starts all its actors itself."""

    def to_json(self) -> str:
        """The notice as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "RunNotice":
        """Reads what to_json() wrote; raises ConfigError, naming the field, where it is something else."""
        return read_json(RunNotice, text, "a run's notice")


def await_notice(server: RoleServer, stop: Callable[[], bool], say: Callable[[str], object]) -> RunNotice | None:
    """Waits for the run's learner, and says so where it takes long; None once it is to stop."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    while not stop():
        found = server.fetch(RUN)
        if found is not None and found[1]:
            return RunNotice.from_json(found[1])
        if time.monotonic() >= patience:
            patience = float("inf")
            say("there is no learner of this run yet; waiting for it")
        time.sleep(_POLL_SECONDS)
    return None


def claim_place(
    server: RoleServer, places: Iterable[int], stop: Stop, timeout_seconds: float | None = None
) -> int | None:
    """Takes the first of these places in the run that is free; None where all stay taken, by default for 5 seconds."""
    places = list(places)
    owner = secrets.randbits(63)
    deadline = time.monotonic() + (_CLAIM_SECONDS if timeout_seconds is None else timeout_seconds)
    while not stop.is_set():
        for place in places:
            try:
                server.claim(f"actor/{place}", owner)
            except ClosedError:
                raise
            except ReplayError:
                continue
            return place
        if time.monotonic() >= deadline:
            return None
        stop.wait(_POLL_SECONDS)
    raise ClosedError("asked to stop")


def run_volunteer(server: RoleServer, report_server: RoleServer, policy_server: RoleServer, stop: Stop) -> None:
    """Acts in the first free place of the run, waiting for one, until stopped or until the run or the server is gone.

    Raises ConfigError where the run has no places. An environment that hangs ends the process.
    """
    notice = await_notice(server, stop.is_set, _say)
    if notice is None:
        return
    if not notice.actors:
        raise ConfigError("the run's learner starts its actors itself; headrace learner leaves them to others")
    place = _await_place(server, len(notice.actors), stop)
    generation = secrets.randbits(31)  # none of its predecessors', whose episodes are not played again
    role = Role("actor", place, notice.actors[place], generation)
    run_actor(role, server, report_server, policy_server, stop, notice.hang_seconds)


def _await_place(server: RoleServer, places: int, stop: Stop) -> int:
    """Waits as long as all places are taken: a spare actor steps in where another goes."""
    place = claim_place(server, range(places), stop)
    if place is None:
        _say(f"all {places} places for actors of the run are taken; waiting for one")
    while place is None:
        stop.wait(_SPARE_POLL_SECONDS)
        place = claim_place(server, range(places), stop, 0.0)
    return place


def _say(text: str) -> None:
    print(text, flush=True)
