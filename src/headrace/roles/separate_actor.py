"""An actor started separately from its run: it gets all its settings from the server."""

import json
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from headrace.errors import ClosedError, ConfigError, ServerError
from headrace.fields import read_json
from headrace.roles.base import RUN, Role, Stop
from headrace.roles.remote_actor import run_actor
from headrace.servers.base import RoleServer

__all__ = ["RunNotice", "await_notice", "claim_place", "run_separate_actor"]

_POLL_SECONDS = 0.1
_PATIENCE_SECONDS = 5.0
"""After this long without a learner, a line says what the actor is waiting for."""
_CLAIM_SECONDS = 5.0
"""How long a predecessor's connection may take to close."""
_SPARE_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class RunNotice:
    """What a learner tells separately started actors; published under RUN as JSON."""

    environment: str
    hang_seconds: float
    start: str
    """Identifies one start of the learner. Actors end when the learner starts again."""
    actors: tuple[str, ...]
    """ActorSettings of every place as JSON; empty if the learner starts all its actors itself."""

    def to_json(self) -> str:
        """The notice as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> "RunNotice":
        """Reads what to_json() wrote; raises ConfigError with the field's name if the text is something else."""
        return read_json(RunNotice, text, "a run's notice")


def await_notice(server: RoleServer, stop: Callable[[], bool], say: Callable[[str], object]) -> RunNotice | None:
    """Waits for the run's learner, and says so if it takes long; returns None if asked to stop."""
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
    """Claims the first free place of `places`; returns None if all stay taken until the timeout, by default 5 s."""
    places = list(places)
    owner = secrets.randbits(63)
    deadline = time.monotonic() + (_CLAIM_SECONDS if timeout_seconds is None else timeout_seconds)
    while not stop.is_set():
        for place in places:
            try:
                server.claim(f"actor/{place}", owner)
            except ClosedError:
                raise
            except ServerError:
                continue
            return place
        if time.monotonic() >= deadline:
            return None
        stop.wait(_POLL_SECONDS)
    raise ClosedError("asked to stop")


def run_separate_actor(server: RoleServer, report_server: RoleServer, policy_server: RoleServer, stop: Stop) -> None:
    """Acts in the first free place of the run, and waits for one if necessary.

    Ends when stopped, or when the run or the server is gone. Raises ConfigError if the run has no places for actors. An
    environment that hangs ends the process.
    """
    notice = await_notice(server, stop.is_set, _say)
    if notice is None:
        return
    if not notice.actors:
        raise ConfigError("the run's learner starts its actors itself; headrace learner leaves them to others")
    place = _await_place(server, len(notice.actors), stop)
    generation = secrets.randbits(31)  # differs from every predecessor's, so that no episodes are repeated
    role = Role("actor", place, notice.actors[place], generation)
    run_actor(role, server, report_server, policy_server, stop, notice.hang_seconds)


def _await_place(server: RoleServer, places: int, stop: Stop) -> int:
    """Waits while all places are taken, so that a spare actor replaces one that leaves."""
    place = claim_place(server, range(places), stop)
    if place is None:
        _say(f"all {places} places for actors of the run are taken; waiting for one")
    while place is None:
        stop.wait(_SPARE_POLL_SECONDS)
        place = claim_place(server, range(places), stop, 0.0)
    return place


def _say(text: str) -> None:
    print(text, flush=True)
