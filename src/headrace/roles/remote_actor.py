"""An actor in a separate process from the learner: polls for policies, pushes chunks, reports."""

import contextlib
import dataclasses
import functools
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headrace.errors import ClosedError, ServerError
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder
from headrace.parameters.refresh import PullSchedule, Refresh
from headrace.roles.actor import ACTOR_PHASES, Actor, ActorSettings
from headrace.roles.base import Role, RoleContext, Stop
from headrace.roles.clock import PhaseClock
from headrace.roles.handles import PolicyHandle, TableHandle
from headrace.roles.reporter import ActorReporter
from headrace.servers import Endpoint, RoleServer

__all__ = ["ActorRole", "claim_slot"]

_POLL_SECONDS = 0.02
_CLAIM_POLL_SECONDS = 0.1
_CLAIM_SECONDS = 5.0
"""How long a predecessor's connection may take to close."""
_GENERATION_STRIDE = 1_000_003


@dataclass(frozen=True)
class ActorRole(Role):
    """Installs policies, acts, and sends its experience; three connections, so that none waits for another's data."""

    kind: ClassVar[str] = "actor"

    settings: ActorSettings
    policy: PolicyHandle
    replay: TableHandle
    transitions: TableHandle | None = None
    """Table for each step as a one-step transition too, for learning a world model."""
    relay: Endpoint | None = None
    """Server that passes on the run's policies; None if the actor polls the run's server."""

    @property
    def elastic(self) -> bool:
        """True: fewer actors act too."""
        return True

    @property
    def relayed_policy(self) -> PolicyHandle:
        """The policy that it acts with."""
        return self.policy

    def relayed(self, relay: Endpoint) -> "ActorRole":
        """The same actor, which polls the relay for policies."""
        return dataclasses.replace(self, relay=relay)

    def run(self, context: RoleContext) -> None:
        """Acts; raises ServerError if another process acts in its slot of a shared server's run."""
        server = context.connect()
        if context.endpoint.run and claim_slot(server, [self.index], context.stop) is None:
            raise ServerError(f"{self.name} of run {context.endpoint.run} is already acting in another process")
        self.act(server, context)

    def act(self, server: RoleServer, context: RoleContext, hang_seconds: float | None = None) -> None:
        """Acts in a slot that is claimed on `server`, the connection for experience.

        `hang_seconds` is None if another process watches for an environment that hangs.
        """
        report_server, policy_server, stop = context.connect(), context.connect(self.relay), context.stop
        settings = dataclasses.replace(self.settings, seed=self.settings.seed + _GENERATION_STRIDE * self.generation)
        decoder = PolicyDecoder(settings.precision, settings.communication_bits)
        clock = PhaseClock(ACTOR_PHASES)
        with contextlib.suppress(ClosedError), contextlib.ExitStack() as ends:
            policy = _first_policy(policy_server, self.policy.name, decoder, stop)
            if policy is None:
                return
            refresh = Refresh(policy_server, self.policy.name, self.policy.news, decoder.decode, policy)
            ends.callback(refresh.close)
            ends.callback(policy_server.close)  # before the refresh thread ends, since that may be waiting for it
            reporter = ActorReporter(
                report_server, self, settings, clock, lambda: {"refresh": refresh.report()}, hang_seconds
            )
            ends.callback(reporter.close)
            clock.enter("environment")
            push = functools.partial(server.insert, self.replay.name)
            push_transitions = functools.partial(server.insert, self.transitions.name) if self.transitions else None
            actor = Actor(settings, refresh.output, push, clock, push_transitions)
            ends.callback(actor.close)
            schedule = PullSchedule(settings.pull_period, settings.pull_unit)
            _act(actor, refresh, reporter, clock, schedule, stop)


def claim_slot(
    server: RoleServer, slots: Iterable[int], stop: Stop, timeout_seconds: float | None = None
) -> int | None:
    """Claims the first free slot of `slots`, the numbers of a run's actors.

    Waits for one until the timeout, by default 5 s; returns None if all stay taken.
    """
    slots = list(slots)
    owner = secrets.randbits(63)
    deadline = time.monotonic() + (_CLAIM_SECONDS if timeout_seconds is None else timeout_seconds)
    while not stop.is_set():
        for slot in slots:
            try:
                server.claim(f"actor/{slot}", owner)
            except ClosedError:
                raise
            except ServerError:
                continue
            return slot
        if time.monotonic() >= deadline:
            return None
        stop.wait(_CLAIM_POLL_SECONDS)
    raise ClosedError("asked to stop")


def _first_policy(policy_server: RoleServer, name: str, decoder: PolicyDecoder, stop: Stop) -> Policy | None:
    while not stop.is_set():
        found = policy_server.fetch(name)
        if found is not None:
            return Policy(decoder.decode(found[1]), found[0])
        stop.wait(_POLL_SECONDS)
    return None


def _act(
    actor: Actor,
    refresh: Refresh,
    reporter: ActorReporter,
    clock: PhaseClock,
    schedule: PullSchedule,
    stop: Stop,
) -> None:
    actor.set_policy_version(refresh.version)
    while not stop.is_set():
        actor.step()
        reporter.count(actor.count, actor.environments.take_episodes())
        if schedule.due(actor.count):
            clock.enter("pull")
            refresh.poll(schedule.behind)
            clock.enter("other")
        if refresh.ready:
            clock.enter("load")
            actor.set_policy_version(refresh.install())
            clock.enter("other")
