"""An actor in a separate process from the learner: polls for policies, pushes chunks, reports."""

import contextlib
import dataclasses

from headrace.errors import ClosedError
from headrace.parameters import Policy
from headrace.parameters.form import PolicyDecoder
from headrace.parameters.refresh import PullSchedule, Refresh
from headrace.roles.actor import ACTOR_PHASES, Actor, ActorSettings
from headrace.roles.base import NEWS, POLICY, TABLE, TRANSITIONS, Role, Stop
from headrace.roles.clock import PhaseClock
from headrace.roles.reporter import ActorReporter
from headrace.servers.base import RoleServer

__all__ = ["run_actor"]

_POLL_SECONDS = 0.02
_GENERATION_STRIDE = 1_000_003


def run_actor(
    role: Role,
    server: RoleServer,
    report_server: RoleServer,
    policy_server: RoleServer,
    stop: Stop,
    hang_seconds: float | None = None,
) -> None:
    """Acts until stopped or until the server is gone. It owns all three connections.

    `policy_server` is asked only for policies and their news, so it may be a relay on this host; it is closed at the
    end. `hang_seconds` is None if another process watches for an environment that hangs.
    """
    settings = ActorSettings.from_json(role.settings)
    settings = dataclasses.replace(settings, seed=settings.seed + _GENERATION_STRIDE * role.generation)
    decoder = PolicyDecoder(settings.precision, settings.communication_bits)
    clock = PhaseClock(ACTOR_PHASES)
    with contextlib.suppress(ClosedError), contextlib.ExitStack() as ends:
        policy = _first_policy(policy_server, decoder, stop)
        if policy is None:
            return
        refresh = Refresh(policy_server, POLICY, NEWS, decoder.decode, policy)
        ends.callback(refresh.close)
        ends.callback(policy_server.close)  # closed before the refresh thread ends, since that may be waiting for it
        reporter = ActorReporter(
            report_server, role, settings, clock, lambda: {"refresh": refresh.report()}, hang_seconds
        )
        ends.callback(reporter.close)
        clock.enter("environment")
        push_transitions = (lambda chunk: server.insert(TRANSITIONS, chunk)) if settings.transitions else None
        actor = Actor(settings, refresh.output, lambda chunk: server.insert(TABLE, chunk), clock, push_transitions)
        ends.callback(actor.close)
        schedule = PullSchedule(settings.pull_period, settings.pull_unit)
        _act(actor, refresh, reporter, clock, schedule, stop)


def _first_policy(policy_server: RoleServer, decoder: PolicyDecoder, stop: Stop) -> Policy | None:
    while not stop.is_set():
        found = policy_server.fetch(POLICY)
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
            refresh.look(schedule.behind)
            clock.enter("other")
        if refresh.ready:
            clock.enter("load")
            actor.set_policy_version(refresh.take())
            clock.enter("other")
