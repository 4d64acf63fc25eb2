"""An actor in a separate process from the learner: polls for policies, pushes chunks, reports."""

import contextlib
import dataclasses
import functools
from dataclasses import dataclass
from typing import ClassVar, Self

from headrace.clock import spend
from headrace.errors import ClosedError
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder
from headrace.parameters.memory import Memory
from headrace.parameters.refresh import PullSchedule, Refresh
from headrace.roles.acting_role import ActingRole
from headrace.roles.actor import Actor, ActorSettings
from headrace.roles.base import RoleContext, Stop, generation_seed
from headrace.roles.clock import ACTOR_PHASES, PhaseClock
from headrace.roles.handles import PolicyHandle, TableHandle
from headrace.roles.heartbeat import Heartbeat
from headrace.roles.messages import Figures
from headrace.roles.reporter import ActorReporter
from headrace.servers import Endpoint, RoleServer

__all__ = ["ActorRole"]

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class ActorRole(ActingRole):
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
    def relayed_policy(self) -> PolicyHandle:
        """The policy that it acts with."""
        return self.policy

    def relayed(self, relay: Endpoint) -> Self:
        """The same actor, which polls the relay for policies."""
        return dataclasses.replace(self, relay=relay)

    def act(self, server: RoleServer, context: RoleContext, hang_seconds: float | None = None) -> None:
        """Acts, and sends its experience over `server`."""
        report_server, policy_server, stop = context.connect(), context.connect(self.relay), context.stop
        settings = dataclasses.replace(self.settings, seed=generation_seed(self.settings.seed, self.generation))
        decoder = PolicyDecoder(settings.precision, settings.communication_bits)
        clock = PhaseClock(ACTOR_PHASES, len(settings.exploration))
        with contextlib.suppress(ClosedError), contextlib.ExitStack() as ends:
            alive = Heartbeat(self, report_server, stop, lambda: {"run_id": settings.run_id})
            policy = _first_policy(policy_server, self.policy.name, decoder, alive, stop)
            if policy is None:
                return
            refresh = Refresh(policy_server, self.policy.name, self.policy.news, decoder.decode, policy)
            ends.callback(refresh.close)
            ends.callback(policy_server.close)  # before the refresh thread ends, since that may be waiting for it
            alive.enter("environment")

            def more() -> Figures:
                return {"refreshed": refresh.figures()}

            reporter = ends.enter_context(ActorReporter(report_server, self, settings, clock, more, hang_seconds))
            clock.enter("environment")
            push = functools.partial(_push, server, clock, self.replay.name)
            push_transitions = (
                functools.partial(_push, server, clock, self.transitions.name) if self.transitions else None
            )
            memory = Memory(refresh.advance, refresh.state_size) if refresh.state_size else None
            output = memory.output if memory else refresh.output
            actor = Actor(settings, output, push, clock, push_transitions, memory)
            ends.callback(actor.close)
            schedule = PullSchedule(settings.pull_period, settings.pull_unit)
            _act(actor, refresh, reporter, clock, schedule, stop)
            server.settle()


def _push(server: RoleServer, clock: PhaseClock, table: str, *chunks: bytes) -> None:
    """Posts chunks; the clock shows how long the server holds them."""
    if not server.post(table, *chunks, wait=False):
        clock.enter("blocked", work="blocked")  # the cost of the push is charged at its end
        server.post(table, *chunks)
        clock.enter("push")


def _first_policy(
    policy_server: RoleServer, name: str, decoder: PolicyDecoder, alive: Heartbeat, stop: Stop
) -> Policy | None:
    while not stop.is_set():
        alive()
        found = policy_server.fetch(name)
        if found is not None:
            policy = Policy(decoder.decode(found[1]), found[0])
            spend("session")
            return policy
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
        taken = actor.step()
        reporter.count(taken, actor.environments.take_episodes())
        if schedule.due(taken):
            clock.enter("pull")
            refresh.poll(schedule.behind)
            clock.enter("other")
        if refresh.ready:
            clock.enter("load")
            actor.set_policy_version(refresh.install())
            clock.enter("other")
