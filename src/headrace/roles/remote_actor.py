"""An actor apart from the learner: pulls policies, pushes chunks, reports."""

import contextlib
import dataclasses

from headrace.errors import ClosedError
from headrace.parameters import Policy
from headrace.roles.actor import ACTOR_PHASES, Actor, ActorSettings
from headrace.roles.base import POLICY, TABLE, Role, Stop
from headrace.roles.clock import PhaseClock
from headrace.roles.reporter import ActorReporter
from headrace.servers.base import RoleServer

__all__ = ["run_actor"]

_POLL_SECONDS = 0.02
_GENERATION_STRIDE = 1_000_003


def run_actor(
    role: Role, server: RoleServer, report_server: RoleServer, stop: Stop, hang_seconds: float | None = None
) -> None:
    """Acts until stopped or until the server is gone; both connections are this actor's own.

    `hang_seconds` is None where somebody else watches that the environment does not hang.
    """
    settings = ActorSettings.from_json(role.settings)
    settings = dataclasses.replace(settings, seed=settings.seed + _GENERATION_STRIDE * role.generation)
    clock = PhaseClock(ACTOR_PHASES)
    with contextlib.suppress(ClosedError):
        policy = _first_policy(server, stop)
        if policy is None:
            return
        reporter = ActorReporter(report_server, role, settings, clock, hang_seconds)
        try:
            clock.enter("environment")
            actor = Actor(settings, policy.q, lambda chunk: server.insert(TABLE, chunk), clock)
            try:
                _act(actor, policy, server, reporter, clock, settings.pull_period, stop)
            finally:
                actor.close()
        finally:
            reporter.close()


def _first_policy(server: RoleServer, stop: Stop) -> Policy | None:
    while not stop.is_set():
        graph = server.fetch(POLICY)
        if graph is not None:
            return Policy(graph[1], graph[0])
        stop.wait(_POLL_SECONDS)
    return None


def _act(
    actor: Actor,
    policy: Policy,
    server: RoleServer,
    reporter: ActorReporter,
    clock: PhaseClock,
    pull_period: int,
    stop: Stop,
) -> None:
    actor.set_policy_version(policy.version)
    since_pull = 0
    while not stop.is_set():
        actor.step()
        reporter.count(actor.count, actor.environments.take_episodes())
        since_pull += actor.count
        if since_pull >= pull_period:
            since_pull = 0
            clock.enter("pull")
            newer = policy.newer(server, POLICY)
            if newer is not None:
                clock.enter("load")
                policy.load(newer[1], newer[0])
                actor.set_policy_version(policy.version)
            clock.enter("other")
